/** Makes forms of the schemas and actions that a program has, and values of the answers. */
import { AnswerTypeMismatch, InvalidQuestion } from "./errors.js";
import { type Span, secondsOf } from "./durations.js";
import { canonicalJson, digest } from "./json.js";
import type { Action, Approval, Attachment, Brief, Field, Form } from "./records.js";
import type { OutputOf, StandardSchema } from "./standard_schema.js";

/** A flat JSON Schema: of an object whose properties are texts, numbers, booleans or listed choices. */
export interface JsonSchema {
  readonly kind?: never;
  readonly [keyword: string]: unknown;
}

/** An action to be approved. Arguments that are named in `editable` may be changed while approving. */
export interface ApprovalRequest<Arguments extends object = object> {
  readonly tool: string;
  readonly arguments?: Arguments;
  readonly editable?: readonly (string | Field)[];
  readonly scopes?: readonly ("once" | "session" | "always")[];
  readonly remember_by?: readonly string[];
  readonly remember_for?: Span;
  readonly valid_for?: Span;
  readonly risk?: "low" | "medium" | "high";
  readonly brief?: Brief;
}

/** The form of an approval. The action is frozen: later changes of its arguments do not change it. */
export async function approvalForm(request: ApprovalRequest): Promise<Approval> {
  const { tool, arguments: given = {}, editable = [], remember_for, valid_for, ...rest } = request;
  let action: Action;
  try {
    action = JSON.parse(canonicalJson({ tool, arguments: given })) as Action;
  } catch (error) {
    throw InvalidQuestion.of("form.action", (error as Error).message);
  }
  return {
    kind: "approval",
    action,
    digest: await digest(action),
    editable: editable.map((each) => (typeof each === "string" ? fieldLike(each, action.arguments[each]) : each)),
    ...(remember_for === undefined ? {} : { remember_for: secondsOf(remember_for) }),
    ...(valid_for === undefined ? {} : { valid_for: secondsOf(valid_for) }),
    ...rest,
  };
}

function fieldLike(name: string, value: unknown): Field {
  switch (typeof value) {
    case "boolean":
      return { name, form: { kind: "confirm" }, default: value };
    case "number":
      return { name, form: { kind: "open", type: Number.isInteger(value) ? "integer" : "number" }, default: value };
    case "string":
      return { name, form: { kind: "open", min_length: 0 }, default: value };
    default:
      throw InvalidQuestion.of(`editable.${name}`, "it cannot be edited as one field; give a Field that says how");
  }
}

/** The form that asks for a value of this schema. The server reads the schema of an object itself. */
export function formOf(schema: StandardSchema): Form | JsonSchema {
  const standard = schema["~standard"];
  if (standard?.jsonSchema === undefined) {
    const why = "this schema cannot say its JSON Schema: give that as `form`, or use a library with Standard JSON Schema";
    throw InvalidQuestion.of("into", why);
  }
  try {
    return formFromSchema(standard.jsonSchema.input({ target: "draft-2020-12" }));
  } catch (error) {
    if (error instanceof InvalidQuestion) throw error;
    throw InvalidQuestion.of("into", (error as Error).message);
  }
}

const FORMATS = { email: "email", uri: "uri", date: "date", "date-time": "datetime" } as const;

/** A form from the JSON Schema of one value, or the schema itself if it is of an object. */
export function formFromSchema(schema: Readonly<Record<string, unknown>>): Form | JsonSchema {
  if (schema["type"] === "object") return flat(schema);
  if (schema["format"] === "password" || schema["writeOnly"]) {
    throw InvalidQuestion.of("into", "a question must not ask for a secret");
  }
  const options = optionsOf(schema);
  if (options !== undefined) return { kind: "choice", options };
  switch (schema["type"]) {
    case "boolean":
      return { kind: "confirm" };
    case "integer":
    case "number": {
      const minimum = boundOf(schema, "minimum", "exclusiveMinimum", 1);
      const maximum = boundOf(schema, "maximum", "exclusiveMaximum", -1);
      return { kind: "open", type: schema["type"], ...given({ minimum, maximum }) };
    }
    case "string": {
      const { minLength, maxLength, pattern, format } = schema as Record<string, never>;
      const type = format === undefined ? undefined : FORMATS[format];
      if (format !== undefined && type === undefined) throw InvalidQuestion.of("into", `the format ${format} is unknown`);
      return {
        kind: "open",
        ...given({ type, min_length: minLength, max_length: maxLength, pattern: type ? undefined : pattern }),
      };
    }
    case "array": {
      const { items, minItems = 0, maxItems } = schema as { items?: object; minItems?: number; maxItems?: number };
      const listed = optionsOf((items ?? {}) as Record<string, unknown>);
      if (listed === undefined) throw InvalidQuestion.of("into", "a list must be of listed choices");
      return { kind: "multi_choice", options: listed, at_least: minItems, ...given({ at_most: maxItems }) };
    }
    default:
      throw InvalidQuestion.of("into", `type ${String(schema["type"])} is not flat; use text, number, boolean, or choices`);
  }
}

/** The least that a number may be. With the sign -1 the most: that is the same on the other side of zero. */
function boundOf(
  schema: Readonly<Record<string, unknown>>,
  inclusive: string,
  exclusive: string,
  sign: 1 | -1,
): number | undefined {
  const read = (name: string): number => {
    const value = schema[name] ?? -sign * Infinity;
    if (typeof value !== "number") throw InvalidQuestion.of("into", `${name} must be a number`);
    return sign * value;
  };
  const beyond = read(exclusive);
  const next = schema["type"] === "integer" ? Math.floor(beyond) + 1 : nextAfter(beyond);
  const bound = Math.max(read(inclusive), next);
  return Number.isFinite(bound) ? sign * bound + 0 : undefined;
}

/** The next larger number that there is. */
function nextAfter(value: number): number {
  if (value === 0 || value === -Infinity) return value || Number.MIN_VALUE;
  const number = new Float64Array([value]);
  const bits = new BigInt64Array(number.buffer);
  bits[0] = (bits[0] ?? 0n) + (value > 0 ? 1n : -1n);
  return number[0] ?? value;
}

type Properties = Record<string, Record<string, unknown>>;

/**
 * The schema of an object as a server takes it. A member that may be null is optional. A format says it already, and people's
 * programs write patterns for it that a server does not take.
 */
function flat(schema: Readonly<Record<string, unknown>>): JsonSchema {
  const { properties = {}, required = [] } = schema as { properties?: Properties; required?: string[] };
  const kept = Object.entries(properties).map(([name, given]) => {
    const { pattern, ...part } = withoutNull(given) ?? given;
    return [name, pattern !== undefined && part["format"] === undefined ? { ...part, pattern } : part] as const;
  });
  const needed = required.filter((name) => !withoutNull(properties[name] ?? {}));
  return { ...schema, properties: Object.fromEntries(kept), required: needed } as JsonSchema;
}

/** The schema of a member without null; undefined if it may not be null. */
function withoutNull({ anyOf, ...part }: Readonly<Record<string, unknown>>): Record<string, unknown> | undefined {
  const listed = Array.isArray(part["type"]) ? part["type"].map((type: unknown) => ({ type })) : anyOf;
  if (!Array.isArray(listed)) return undefined;
  const others = (listed as { type?: unknown }[]).filter(({ type }) => type !== "null");
  return others.length === 1 && listed.length === 2 ? { ...part, ...others[0] } : undefined;
}

function optionsOf(schema: Readonly<Record<string, unknown>>): { id: string; label: string }[] | undefined {
  const listed = schema["oneOf"] ?? (allConst(schema["anyOf"]) ? schema["anyOf"] : undefined);
  if (Array.isArray(listed)) {
    const parts = listed as { const?: unknown; title?: string }[];
    return parts.map(({ const: id, title }) => ({ id: text(id), label: title ?? text(id) }));
  }
  const values = "const" in schema ? [schema["const"]] : schema["enum"];
  return Array.isArray(values) ? values.map((id) => ({ id: text(id), label: text(id) })) : undefined;
}

function allConst(parts: unknown): boolean {
  return Array.isArray(parts) && parts.every((part) => typeof part === "object" && part !== null && "const" in part);
}

function text(value: unknown): string {
  if (typeof value !== "string") throw InvalidQuestion.of("into", "choices must be texts");
  return value;
}

function given<Parts extends object>(parts: Parts): { [Name in keyof Parts]: NonNullable<Parts[Name]> } {
  return Object.fromEntries(Object.entries(parts).filter(([, part]) => part !== undefined)) as never;
}

/** The answer with null for what was left out and may be null. */
function withNulls({ "~standard": standard }: StandardSchema, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  try {
    const schema = (standard.jsonSchema?.input({ target: "draft-2020-12" }) ?? {}) as { properties?: Properties; required?: string[] };
    const nulls = (schema.required ?? []).filter((name) => withoutNull(schema.properties?.[name] ?? {}));
    return { ...Object.fromEntries(nulls.map((name) => [name, null])), ...value };
  } catch {
    return value; // it cannot say its JSON Schema, and the form was given
  }
}

/** The answer as the schema reads it. */
export async function readAnswer<Schema extends StandardSchema>(schema: Schema, value: unknown): Promise<OutputOf<Schema>> {
  const result = await schema["~standard"].validate(withNulls(schema, value));
  if (result.issues === undefined) return result.value as OutputOf<Schema>;
  const problems = result.issues.map(({ path = [], message }) => ({
    path: path.map((part) => String(typeof part === "object" ? part.key : part)).join("."),
    message,
  }));
  const said = problems.map((each) => (each.path ? `${each.path}: ${each.message}` : each.message)).join("; ");
  const message = `The answer fits the question but not the asker's own type: ${said}`;
  throw new AnswerTypeMismatch("answer_type_mismatch", message, undefined, problems);
}

/** The type of the answer to a form or to a flat JSON Schema. */
export type AnswerTo<F> = F extends { readonly kind: infer Kind }
  ? Kind extends "confirm"
    ? boolean
    : Kind extends "choice"
      ? ChosenFrom<F>
      : Kind extends "multi_choice"
        ? ChosenFrom<F>[]
        : Kind extends "open"
          ? F extends { readonly type: "integer" | "number" }
            ? number
            : string
          : Kind extends "file"
            ? Attachment
            : Record<string, unknown>
  : F extends { readonly properties: infer Properties; readonly required: infer Required }
    ? { -readonly [Name in keyof Properties & Names<Required>]: ValueOf<Properties[Name]> } & {
        -readonly [Name in Exclude<keyof Properties, Names<Required>>]?: ValueOf<Properties[Name]>;
      }
    : F extends { readonly properties: infer Properties }
      ? { -readonly [Name in keyof Properties]?: ValueOf<Properties[Name]> }
      : Record<string, unknown>;

/** The id of an option, or the text that stands for one. */
export type IdOf<O> = O extends string ? O : O extends { readonly id: infer Id } ? Id : never;

type ChosenFrom<F> =
  | (F extends { readonly options: readonly (infer O)[] } ? IdOf<O> : string)
  | (F extends { readonly allow_other: true } ? { other: string } : never);
type Names<List> = List extends readonly (infer Name)[] ? Name : never;
type ValueOf<Schema> = Schema extends { readonly enum: readonly (infer Value)[] }
  ? Value
  : Schema extends { readonly const: infer Value }
    ? Value
    : Schema extends { readonly type: "boolean" }
      ? boolean
      : Schema extends { readonly type: "integer" | "number" }
        ? number
        : Schema extends { readonly type: "array"; readonly items: infer Items }
          ? ValueOf<Items>[]
          : Schema extends { readonly type: "string" }
            ? string
            : unknown;
