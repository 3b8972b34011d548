"""A server of exports over HTTP: Starlette on uvicorn."""
