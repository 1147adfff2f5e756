"""What came of several answers or questions, as a server says it."""

from __future__ import annotations

from handraise.model.bulk_answers import BulkResult
from handraise.wire.problem_documents import ProblemDocument, error_of, problem_of
from handraise.wire.records import QuestionRecord, Record


class AnswerResultRecord(Record):
    """What came of one answer: the status and the body that it would have had by itself.

    The body is the `question` as it is then, or the `problem`.
    """

    question_id: str
    status: int
    question: QuestionRecord | None = None
    problem: ProblemDocument | None = None

    @classmethod
    def of(cls, result: BulkResult) -> AnswerResultRecord:
        """The record of a result."""
        if result.error is not None:
            problem = problem_of(result.error)
            return cls(question_id=result.question_id, status=problem.status, problem=problem)
        question = None if result.question is None else QuestionRecord.of(result.question, with_state=False)
        return cls(question_id=result.question_id, status=200, question=question)

    def result(self, *, workspace: str, actor: str) -> BulkResult:
        """The result; `actor` is who answered."""
        if self.question is not None:
            return BulkResult(self.question_id, question=self.question.question())
        problem = self.problem or _NOTHING_SAID
        error = error_of(problem, subject=self.question_id, workspace=workspace, actor=actor)
        return BulkResult(self.question_id, error=error)


class AnswerResults(Record):
    """What came of several answers, in the order in which they were given."""

    results: tuple[AnswerResultRecord, ...]


class PostResultRecord(Record):
    """What came of one question: the status and the body that it would have had by itself.

    The body is the `question`, or the `problem`.
    """

    status: int
    question: QuestionRecord | None = None
    problem: ProblemDocument | None = None


class PostResults(Record):
    """What came of several questions, in the order in which they were given."""

    results: tuple[PostResultRecord, ...]


_NOTHING_SAID = ProblemDocument(
    type="about:blank", title="", status=500, code="error", detail="it does not say what came of this answer"
)
