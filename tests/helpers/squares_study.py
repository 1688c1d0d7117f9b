"""A study of few points, for tests of how studies are measured."""

from study_points import squares

from papers.studies.comparison import computed
from papers.studies.study import Conclusion, Study


def conclude(results):
    total = sum(result["square"] for _, result in results)
    assert all(result["pair"] == [1, 2] for _, result in results)
    return Conclusion([computed("numbers: sum of squares", "14", total)])


def study(log, measure=squares, name="squares", **more):
    return Study(
        name=name,
        title="Squares",
        source="None",
        points=lambda quick: [
            {"number": number, "log": str(log), **more} for number in range(2 if quick else 4)
        ],
        measure=measure,
        conclude=conclude,
    )
