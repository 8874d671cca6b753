"""A stage of two servers: what a scenario does to the target or sees of it, it does to and sees of both."""

from __future__ import annotations

from typing import Any

from tests.replicas.bench import PairBench, servers
from tests.sandbox_fixture import ask
from tests.scenarios.stage import Stage, published


class PairStage(Stage):
    """``bench`` is a ``PairBench``. Each server's live table is watched for itself."""

    bench: PairBench

    def __init__(self, bench: PairBench) -> None:
        super().__init__(bench)
        self.there = [bench.second.live()]

    def publish(self) -> None:
        """A live table with ids 100 to 104 is on both; the source holds ids 200 to 206."""
        published(self.bench.second)
        published(self.bench)
        self.look()

    def look(self) -> None:
        """Note which generation is live on each."""
        super().look()
        live = self.bench.second.live()
        if live == self.there[-1]:
            return
        assert live is not None, "the live table of the second replica vanished"
        assert live not in self.there, "an old generation came back on the second replica"
        self.there.append(live)

    @property
    def switches(self) -> int:
        """How often the live table changed so far, on both alike."""
        assert len(self.there) == len(self.lived), "the replicas went through other generations"
        return super().switches

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """What somebody else does on both servers; the answer of the first."""
        answers = [ask(server, statement.format(db=self.bench.database)) for server in servers(self.bench.pair)]
        return answers[0]

    def settled(self, ids: range = range(200, 207), *, private: tuple[str, ...] = ()) -> None:
        """The end of every story, on both."""
        super().settled(ids, private=private)
        assert self.bench.both() == [list(ids)] * 2
        assert self.bench.lives() == (self.bench.record().generation,) * 2
        assert tuple(self.bench.second.private()) == private
