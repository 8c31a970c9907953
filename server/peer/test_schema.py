"""Tests of this folder: python3 -m unittest. They need no peer."""

import contextlib
import http.server
import threading
import unittest
from unittest import mock

import schema

ENOUGH_S = 20


class Busy(http.server.BaseHTTPRequestHandler):
    """Answers no request until the first one's client has gone, and each one after that."""

    def do_POST(self):
        if self.server.first.acquire(blocking=False):
            self.connection.recv(1)  # the end of the client
        else:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.server.loaded.set()

    def log_message(self, *_):
        pass


class Stand:
    """What Beside looks at, of a server in this process."""

    def __init__(self, port, ended=False):
        self.http, self.ended, self.looks = f"127.0.0.1:{port}", ended, 0

    def memory(self):
        if self.ended:
            raise FileNotFoundError
        self.looks += 1
        return self.looks

    def alive(self):
        return not self.ended


@contextlib.contextmanager
def serving():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        server.first, server.loaded = threading.Semaphore(1), threading.Event()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Watching(unittest.TestCase):
    @mock.patch.multiple(schema, LOAD_TIMEOUT_S=0.05, LOOK_S=0.001)
    def test_a_load_without_an_answer_does_not_end_the_watch(self):
        with serving() as server:
            beside = schema.Beside(Stand(server.server_port))
            beside.start()
            loaded = server.loaded.wait(ENOUGH_S)
            beside.over.set()
            beside.join(ENOUGH_S)
        self.assertTrue(loaded, "no model was loaded after a load without an answer")
        self.assertGreater(beside.most, schema.LOOKS_A_LOAD, "the memory was not looked at again")

    def test_a_server_that_has_ended_is_watched_no_more(self):
        beside = schema.Beside(Stand(1, ended=True))
        beside.start()
        beside.join(ENOUGH_S)
        self.assertFalse(beside.is_alive())


if __name__ == "__main__":
    unittest.main()
