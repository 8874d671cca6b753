"""A stage of several servers: what a scenario does to the target or sees of it, it does to and sees of each."""

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
        self.there = [[other.live()] for other in bench.others]

    def publish(self) -> None:
        """A live table with ids 100 to 104 is on each; the source holds ids 200 to 206."""
        for other in self.bench.others:
            published(other)
        published(self.bench)
        self.look()

    def look(self) -> None:
        """Note which generation is live on each."""
        super().look()
        for there, other in zip(self.there, self.bench.others, strict=True):
            live = other.live()
            if live == there[-1]:
                continue
            assert live is not None, "the live table of another replica vanished"
            assert live not in there, "an old generation came back on another replica"
            there.append(live)

    def forget(self) -> None:
        super().forget()
        self.there = [[other.live()] for other in self.bench.others]

    @property
    def switches(self) -> int:
        """How often the live table changed so far, on all alike."""
        assert {len(there) for there in self.there} == {len(self.lived)}, "the replicas went through other generations"
        return super().switches

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """What somebody else does on each server; the answer of the first."""
        answers = [ask(server, statement.format(db=self.bench.database)) for server in servers(self.bench.pair)]
        return answers[0]

    def settled(self, ids: range = range(200, 207), *, private: tuple[str, ...] = ()) -> None:
        """The end of every story, on each."""
        super().settled(ids, private=private)
        number = len(self.bench.pair.servers)
        assert self.bench.each() == [list(ids)] * number
        assert self.bench.lives() == (self.bench.record().generation,) * number
        assert all(tuple(other.private()) == private for other in self.bench.others)
