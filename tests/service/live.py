"""The service on a free port of this machine, in a thread."""

import threading
from contextlib import contextmanager

from keras_sentmatch.service.app import make_app
from keras_sentmatch.service.gate import Limits
from keras_sentmatch.service.server import listen, make_server


@contextmanager
def on_a_port(runs, limits=None, **options):
    """The port on which runs are served."""
    limits = limits or Limits()
    listening = listen("127.0.0.1", 0)
    server = make_server(
        make_app(runs, limits, **options), read_seconds=limits.read_seconds, grace=5
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
