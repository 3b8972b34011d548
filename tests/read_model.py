"""The model in a file of weights whose config is known, with its head."""

from loading import model_directory


def read(path, config, head="auto", **settings):
    """A conversion.Converted; `settings` are further arguments of its model."""
    files = model_directory.ModelFiles(init_checkpoint=str(path))
    opened = model_directory.ModelDirectory(files, config)
    num_classes = None
    if "text_vectors" not in settings:
        head, num_classes = opened.find_head(head)
    return opened.build(head, num_classes, **settings)
