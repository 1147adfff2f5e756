export { HandraiseQuestion, type HandraiseQuestionProps, type SettledStatus } from "./handraise_question.js";
export { type PolledOptions, polledQuestions } from "./polled_questions.js";
export { type QuestionSource, type QuestionState, useQuestion, useQuestions } from "./use_question.js";
