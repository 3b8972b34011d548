r"""The peer of benchmarks/load.py: Hugging Face's pipeline behind a Starlette app.

    python -m benchmarks.load_peer DIRECTORY PORT

At its best: requests that wait are answered together, sorted by length, 16 at a time;
inference mode, every core. Needs torch, transformers, starlette, uvicorn.
"""

import asyncio
import contextlib
import sys

import torch
import transformers
import uvicorn
from starlette import applications, requests, responses, routing

from contract import cores

_BATCH_ROWS = 16


async def answer_all(waiting, classify):
    """Answers what waits, (text, future) each, until it is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        works = [await waiting.get()]
        while not waiting.empty():
            works.append(waiting.get_nowait())
        works.sort(key=lambda work: len(work[0]))
        for first in range(0, len(works), _BATCH_ROWS):
            batch = works[first : first + _BATCH_ROWS]
            texts = [text for text, _ in batch]
            answers = await loop.run_in_executor(None, classify, texts)
            for (_, future), scores in zip(batch, answers, strict=True):
                if not future.cancelled():
                    future.set_result({row["label"]: row["score"] for row in scores})


def main(directory, port):
    """Serves the classifier of a directory on loopback."""
    torch.set_num_threads(cores.usable())
    transformers.logging.set_verbosity_error()
    pipeline = transformers.pipeline(
        "text-classification", directory, top_k=None, device="cpu"
    )
    waiting: asyncio.Queue = asyncio.Queue()

    def classify(texts):
        with torch.inference_mode():
            return pipeline(texts, batch_size=len(texts), truncation=True)

    async def predict(request: requests.Request) -> responses.Response:
        body = await request.json()
        future = asyncio.get_running_loop().create_future()
        waiting.put_nowait((body["instances"][0], future))
        return responses.JSONResponse({"predictions": [await future]})

    @contextlib.asynccontextmanager
    async def lifespan(_):
        task = asyncio.create_task(answer_all(waiting, classify))
        yield
        task.cancel()

    route = routing.Route("/v1/models/{name}:predict", predict, methods=["POST"])
    app = applications.Starlette(routes=[route], lifespan=lifespan)
    classify(["a text", "another"])
    print("serving, for example", flush=True)
    uvicorn.run(app, port=port, log_level="critical", access_log=False)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
