"""Files of whatever Python can pickle: parameters and tensors among it."""

import pickle


def save_object(obj, file):
    if hasattr(file, "write"):
        pickle.dump(obj, file)
        return
    with open(file, "wb") as stream:
        pickle.dump(obj, stream)


def load_object(file):
    if hasattr(file, "read"):
        return pickle.load(file)
    with open(file, "rb") as stream:
        return pickle.load(stream)
