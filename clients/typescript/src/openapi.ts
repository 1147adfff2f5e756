// Made from docs/reference/openapi.json by `npm run types`. Do not edit it.

export interface components {
    schemas: {
        /** @description What is to be done: a tool and its arguments, frozen. */
        readonly Action: {
            readonly arguments: {
                readonly [key: string]: unknown;
            };
            readonly tool: string;
        };
        /** @description An approved action, to be executed now. */
        readonly ActionRecord: {
            readonly arguments: {
                readonly [key: string]: unknown;
            };
            readonly tool: string;
        };
        /**
         * @description Approve or deny a frozen action; the arguments named in `editable` may be changed while approving.
         *
         *     `scopes` are how far an approval may reach: this action once, or again in the same conversation (session)
         *     or anywhere (always) for at most `remember_for` seconds. A remembered approval applies to an action of the
         *     same tool with the same arguments, or the same values of those in `remember_by`, asked of the same
         *     recipients.
         *
         *     With `valid_for`, an approval must be used within this many seconds after it was given.
         *
         *     `risk` is how much harm the action could do, as declared by the agent's author. An action of high risk
         *     must be approved every time, and only by a person whose identity is proven, not merely asserted by a
         *     program.
         *
         *     `brief` is what the agent says about it, in its own words.
         */
        readonly Approval: {
            readonly action: components["schemas"]["Action"];
            readonly brief?: components["schemas"]["Brief"] | null;
            readonly digest: string;
            readonly editable?: readonly components["schemas"]["Field"][];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            readonly kind: "approval";
            readonly remember_by?: readonly string[] | null;
            readonly remember_for?: number;
            /** @enum {string} */
            readonly risk?: "low" | "medium" | "high";
            readonly scopes?: readonly ("once" | "session" | "always")[];
            readonly valid_for?: number | null;
        };
        /** @description Who does not want a question in their inbox, and until when; null is for good. */
        readonly AsideRecord: {
            readonly person: string;
            readonly until?: string | null;
        };
        /**
         * @description A file as it is described in a question, a reply or an answer. `digest` is the SHA-256 of its bytes.
         *
         *     The name and the media type are what the uploader says. Show both as untrusted text.
         */
        readonly "Attachment-Input": {
            readonly digest: string;
            readonly media_type: string;
            readonly name: string;
            readonly size: number;
        };
        /**
         * @description A file as it is described in a question, a reply or an answer. `digest` is the SHA-256 of its bytes.
         *
         *     The name and the media type are what the uploader says. Show both as untrusted text.
         */
        readonly "Attachment-Output": {
            readonly digest: string;
            readonly media_type: string;
            readonly name: string;
            readonly size: number;
        };
        /**
         * @description What an agent says about an action, in its own words, for the people who decide. Nobody has checked it.
         *
         *     `why` says why it wants to do this, `checked` what it has checked, `affects` whom or what it concerns. `reversible` says
         *     whether it can be undone; None if the agent does not know.
         */
        readonly Brief: {
            readonly affects?: string | null;
            readonly checked?: readonly string[];
            readonly links?: readonly components["schemas"]["Link"][];
            readonly reversible?: boolean | null;
            readonly why?: string | null;
        };
        /** @description Who the caller is: an agent, a person or a reader, and only one of them. */
        readonly CallerRecord: {
            readonly agent?: string | null;
            readonly person?: string | null;
            readonly reader?: string | null;
            readonly role?: components["schemas"]["Role"] | null;
            readonly workspace: string;
        };
        /** @description Exactly one option, or with `allow_other` a text of the person's own. */
        readonly Choice: {
            readonly allow_other?: boolean;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            readonly kind: "choice";
            readonly options: readonly components["schemas"]["Option"][];
        };
        /** @description Yes or no. */
        readonly Confirm: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            readonly kind: "confirm";
        };
        /** @description Consume an approval. The same `request` again returns the same action again. */
        readonly ConsumeQuestion: {
            readonly request?: string | null;
        };
        /** @description After this many seconds, others may answer too. */
        readonly "EscalationRecord-Input": {
            readonly after: number | string;
            readonly to: readonly string[];
        };
        /** @description After this many seconds, others may answer too. */
        readonly "EscalationRecord-Output": {
            readonly after: number;
            readonly to: readonly string[];
        };
        /**
         * EventKind
         * @description What happened to a question.
         * @enum {string}
         */
        readonly EventKind: "asked" | "attempted" | "voted" | "reminded" | "escalated" | "answered" | "declined" | "expired" | "withdrawn" | "exhausted" | "returned" | "replaced" | "consumed" | "taken_back" | "reported" | "asked_back" | "noted" | "replied" | "opened" | "taken" | "released" | "brought_in" | "handed_over" | "set_aside" | "put_back" | "revoked" | "kept" | "sent" | "joined" | "unreached";
        /** @description Some events in order; `next` is the cursor to continue from, even if no event since then is for the caller. */
        readonly EventPage: {
            readonly items: readonly components["schemas"]["EventRecord"][];
            readonly next?: string | null;
        };
        /** @description One event of a question's history. */
        readonly EventRecord: {
            /** Format: date-time */
            readonly at: string;
            readonly by?: string | null;
            readonly channel?: string | null;
            readonly cursor: string;
            readonly data?: unknown;
            readonly kind: components["schemas"]["EventKind"];
            readonly question_id: string;
            readonly workspace: string;
        };
        /** @description A named part of a form; `default` is what a page shows in it at first. */
        readonly Field: {
            readonly default?: unknown;
            readonly description?: string | null;
            readonly form: components["schemas"]["Choice"] | components["schemas"]["MultiChoice"] | components["schemas"]["Open"] | components["schemas"]["Confirm"] | components["schemas"]["File"];
            readonly name: string;
            readonly required?: boolean;
            readonly title?: string | null;
        };
        /**
         * @description One file, which the answering person uploads.
         *
         *     `accept` are the media types that fit, such as `application/pdf` or `image/*`; none means any. `max_bytes` is how large
         *     it may be.
         */
        readonly File: {
            readonly accept?: readonly string[];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            readonly kind: "file";
            readonly max_bytes?: number | null;
        };
        /** @description Several named fields, answered together. */
        readonly Form: {
            readonly fields: readonly components["schemas"]["Field"][];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            readonly kind: "form";
        };
        /** @description The heartbeats in seconds, by id, of those questions that are pending, are the agent's own, and have one. */
        readonly HeartbeatsRecord: {
            readonly heartbeats: {
                readonly [key: string]: number;
            };
        };
        /** @description A page where people can read more. It is shown with its host. */
        readonly Link: {
            readonly label: string;
            readonly url: string;
        };
        /** @description A rule of the policy that matched. `failed` means that its expression could not be evaluated. */
        readonly MatchRecord: {
            /** @enum {string} */
            readonly effect: "deny" | "require" | "allow";
            /** @default false */
            readonly failed: boolean;
            /**
             * @default enforce
             * @enum {string}
             */
            readonly mode: "enforce" | "observe";
            readonly rule: string;
        };
        /** @description One message of a question's thread. An agent gets notes without their text: they are not for the asker. */
        readonly MessageRecord: {
            /** Format: date-time */
            readonly at: string;
            /** @default [] */
            readonly attachments: readonly components["schemas"]["Attachment-Output"][];
            readonly by: string;
            readonly channel?: string | null;
            /** @enum {string} */
            readonly kind: "asked_back" | "noted" | "replied";
            readonly number: number;
            readonly text: string;
        };
        /** @description Several options, between `at_least` and `at_most` of them. */
        readonly MultiChoice: {
            readonly allow_other?: boolean;
            readonly at_least?: number;
            readonly at_most?: number | null;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            readonly kind: "multi_choice";
            readonly options: readonly components["schemas"]["Option"][];
        };
        /** @description How many of these people and groups must be among those who agree, and in which stage they are asked. */
        readonly NeedRecord: {
            /** @default 1 */
            readonly count: number;
            readonly people: readonly string[];
            /** @default 0 */
            readonly stage: number;
        };
        /** @description Free text, or one value typed as text. `pattern` is searched for, in linear time. */
        readonly Open: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            readonly kind: "open";
            readonly max_length?: number | null;
            readonly maximum?: number | null;
            readonly min_length?: number;
            readonly minimum?: number | null;
            readonly pattern?: string | null;
            /** @enum {string} */
            readonly type?: "text" | "integer" | "number" | "email" | "uri" | "date" | "datetime";
        };
        /**
         * @description One thing that can be chosen. The canonical answer is its `id`.
         *
         *     `preview` shows in Markdown what you would get. An option that the agent recommends is `recommended`, with a `reason`.
         *     Nothing is chosen because of that.
         */
        readonly Option: {
            readonly description?: string | null;
            readonly id: string;
            readonly label: string;
            readonly preview?: string | null;
            readonly reason?: string | null;
            readonly recommended?: boolean;
        };
        /** @description How a question ended. `value`, `source` and `evidence` are set if it was answered. */
        readonly OutcomeRecord: {
            /** Format: date-time */
            readonly at: string;
            readonly by?: string | null;
            readonly channel?: string | null;
            readonly evidence?: string | null;
            readonly reason?: string | null;
            readonly source?: ("person" | "default" | "grant" | "policy" | "shared" | "standing") | null;
            /** @enum {string} */
            readonly status: "answered" | "declined" | "expired" | "withdrawn" | "exhausted" | "returned";
            readonly value?: unknown;
        };
        /** @description The status of one question: pending without an outcome, or settled with one. */
        readonly OutcomeState: {
            readonly id: string;
            readonly outcome?: components["schemas"]["OutcomeRecord"] | null;
            readonly status: components["schemas"]["Status"];
        };
        /** @description The requested questions that are settled, and those that do not exist. */
        readonly OutcomeStates: {
            /** @default [] */
            readonly settled: readonly components["schemas"]["OutcomeState"][];
            /** @default [] */
            readonly unknown: readonly string[];
        };
        /**
         * @description A question to ask. Say what a valid answer is with `choices` or `form`; else it is free text.
         *
         *     `form` is one of Handraise's forms or a flat JSON Schema; an approval's digest may be left out. If you
         *     give your own `id`, posting it again is safe. `if_exists` says what is returned if the `key` is taken: the
         *     stored question if it is the same (`equal`), or always (`keep`). A key belongs to the agent, unless it is
         *     `shared` with others that say so too. With `check_recipients` false, recipients whom the directory does
         *     not know are accepted too.
         */
        readonly PostQuestion: {
            readonly attachments?: readonly components["schemas"]["Attachment-Input"][];
            readonly check_recipients?: boolean;
            readonly choices?: readonly (string | components["schemas"]["Option"])[] | null;
            readonly context?: unknown;
            readonly conversation?: string | null;
            readonly expires_in?: number | string | null;
            readonly form?: ((components["schemas"]["Choice"] | components["schemas"]["MultiChoice"] | components["schemas"]["Open"] | components["schemas"]["Confirm"] | components["schemas"]["File"] | components["schemas"]["Form"] | components["schemas"]["Approval"]) | {
                readonly [key: string]: unknown;
            }) | null;
            readonly heartbeat?: number | string | null;
            readonly id?: string | null;
            /** @enum {string} */
            readonly if_exists?: "equal" | "keep";
            readonly key?: string | null;
            readonly max_attempts?: number | null;
            readonly prompt: string;
            readonly quorum?: number;
            readonly recipients?: readonly string[];
            readonly replaces?: string | null;
            readonly replies?: ("program" | "model") | null;
            readonly shared?: boolean;
            readonly state?: unknown;
            readonly timeline?: components["schemas"]["TimelineRecord-Input"] | null;
            readonly tool_call?: string | null;
            readonly topic?: string | null;
            readonly trace?: string | null;
            readonly undo_for?: number | string;
            readonly veto?: boolean;
        };
        /**
         * @description What went wrong. `problems` lists each problem; `outcome` is how a settled question ended; `stop` is what stops it.
         *
         *     `report` is the one that was made before. `seen` is how many messages an approval covers, `thread` how many there are.
         *     `taken_by` is who is working on the answer, and `until` says for how long.
         */
        readonly ProblemDocument: {
            readonly code: string;
            readonly detail: string;
            readonly outcome?: components["schemas"]["OutcomeRecord"] | null;
            /** @default [] */
            readonly problems: readonly components["schemas"]["ProblemEntry"][];
            readonly question?: components["schemas"]["QuestionRecord"] | null;
            readonly quota?: number | null;
            readonly reason?: string | null;
            readonly report?: components["schemas"]["ReportRecord"] | null;
            readonly retry_after?: number | null;
            readonly seen?: number | null;
            readonly status: number;
            readonly stop?: components["schemas"]["StopRecord"] | null;
            readonly taken_by?: string | null;
            readonly thread?: number | null;
            readonly title: string;
            readonly type: string;
            readonly until?: string | null;
        };
        /** @description One thing that is wrong with a request, with its path. */
        readonly ProblemEntry: {
            readonly message: string;
            readonly path: string;
        };
        /** @description Some questions; `next` is the `after` of the next page, if there may be one. */
        readonly QuestionPage: {
            readonly items: readonly components["schemas"]["QuestionRecord"][];
            readonly next?: string | null;
        };
        /** @description A question and its current state. The field `state` is private to the asker: nobody else sees it. */
        readonly QuestionRecord: {
            /** @default [] */
            readonly added: readonly string[];
            /** @default [] */
            readonly aside: readonly components["schemas"]["AsideRecord"][];
            /** Format: date-time */
            readonly asked_at: string;
            /** @default 0 */
            readonly asked_back: number;
            readonly asker: string;
            /** @default [] */
            readonly attachments: readonly components["schemas"]["Attachment-Output"][];
            /** @default 0 */
            readonly attempts: number;
            /** @default [] */
            readonly audience: readonly string[];
            readonly consumed_at?: string | null;
            readonly context?: unknown;
            readonly conversation?: string | null;
            readonly due_at?: string | null;
            readonly evidence?: ("session" | "passkey") | null;
            readonly expires_at?: string | null;
            readonly follows?: string | null;
            readonly form: components["schemas"]["Choice"] | components["schemas"]["MultiChoice"] | components["schemas"]["Open"] | components["schemas"]["Confirm"] | components["schemas"]["File"] | components["schemas"]["Form"] | components["schemas"]["Approval"];
            readonly heard_at?: string | null;
            readonly heartbeat?: number | null;
            readonly id: string;
            readonly key?: string | null;
            readonly max_attempts?: number | null;
            /** @default [] */
            readonly missing: readonly number[];
            /** @default [] */
            readonly needs: readonly components["schemas"]["NeedRecord"][];
            readonly outcome?: components["schemas"]["OutcomeRecord"] | null;
            readonly prompt: string;
            /** @default 1 */
            readonly quorum: number;
            /** @default [] */
            readonly recipients: readonly string[];
            readonly replaced_by?: string | null;
            readonly replaces?: string | null;
            /** @default 0 */
            readonly replied: number;
            readonly replies?: ("program" | "model") | null;
            readonly report?: components["schemas"]["ReportRecord"] | null;
            readonly ruling?: components["schemas"]["RulingRecord"] | null;
            readonly sent_at?: string | null;
            /** @default false */
            readonly shared: boolean;
            readonly state?: unknown;
            readonly status: components["schemas"]["Status"];
            readonly stepped_at?: string | null;
            /** @default 0 */
            readonly steps_taken: number;
            readonly taken_back_at?: string | null;
            readonly taken_by?: string | null;
            readonly taken_until?: string | null;
            /** @default 0 */
            readonly thread: number;
            readonly timeline?: components["schemas"]["TimelineRecord-Output"] | null;
            readonly tool_call?: string | null;
            readonly topic?: string | null;
            readonly trace?: string | null;
            /** @default 0 */
            readonly undo_for: number;
            readonly unreached_at?: string | null;
            readonly url?: string | null;
            /** @default false */
            readonly veto: boolean;
            /** @default [] */
            readonly votes: readonly components["schemas"]["VoteRecord"][];
            readonly workspace: string;
        };
        /** @description A receipt of an approval, as a signed token. */
        readonly ReceiptToken: {
            readonly receipt: string;
        };
        /** @description A reply of the asker to the message with the number `to` and all before it; without it, to all so far. */
        readonly ReplyToPeople: {
            readonly attachments?: readonly components["schemas"]["Attachment-Input"][];
            readonly text: string;
            readonly to?: number | null;
        };
        /** @description Report what came of an answer. `text` is for people, `link` begins with https:// or http://, `details` is any JSON. */
        readonly ReportQuestion: {
            readonly details?: unknown;
            readonly link?: string | null;
            readonly ok: boolean;
            readonly text: string;
        };
        /** @description What came of the answer, in the asker's own words. Nobody has checked them. */
        readonly ReportRecord: {
            /** Format: date-time */
            readonly at: string;
            readonly details?: unknown;
            readonly link?: string | null;
            readonly ok: boolean;
            readonly text: string;
        };
        /**
         * Role
         * @description What a person may do besides answering.
         * @enum {string}
         */
        readonly Role: "member" | "admin";
        /**
         * @description What the workspace's policy decided when the question was posted: its version and the rules that matched.
         *
         *     `asked` has what the asker had asked for, for each part that the policy changed. `checked` is set if the question is
         *     a spot check of a rule that would have allowed it. `names_people` says that the policy named who answers. `close_orphans`
         *     is after how many seconds the policy withdraws it if nobody waits for the answer. `standing` is set if it is a spot check
         *     of the standing answer with that id. Without a policy, `version` is 0.
         */
        readonly RulingRecord: {
            /** @default {} */
            readonly asked: {
                readonly [key: string]: unknown;
            };
            readonly checked?: string | null;
            readonly close_orphans?: number | null;
            /** @default [] */
            readonly matches: readonly components["schemas"]["MatchRecord"][];
            /** @default false */
            readonly names_people: boolean;
            readonly standing?: string | null;
            readonly version: number;
        };
        /**
         * Status
         * @description The status of a question: pending, or settled in one of six ways.
         * @enum {string}
         */
        readonly Status: "pending" | "answered" | "declined" | "expired" | "withdrawn" | "exhausted" | "returned";
        /** @description What is stopped: an agent, a tool, a tool of an agent, or without both the whole workspace. */
        readonly StopRecord: {
            readonly agent?: string | null;
            /** Format: date-time */
            readonly at: string;
            readonly by?: string | null;
            readonly id: string;
            readonly tool?: string | null;
            readonly why: string;
        };
        /** @description All messages that people and the asker have written about a question, oldest first. */
        readonly Thread: {
            readonly items: readonly components["schemas"]["MessageRecord"][];
        };
        /**
         * @description What happens while nobody answers; times are in seconds and count from when the question is asked.
         *
         *     A sender may write working time, such as "2 working hours". Then `working` has these words, by the place where they
         *     were written: `remind.0`, `escalate.0` or `expire`.
         */
        readonly "TimelineRecord-Input": {
            readonly default?: unknown;
            readonly escalate?: readonly components["schemas"]["EscalationRecord-Input"][];
            readonly expire?: number | string | null;
            readonly remind?: readonly (number | string)[];
            readonly working?: {
                readonly [key: string]: string;
            } | null;
        };
        /**
         * @description What happens while nobody answers; times are in seconds and count from when the question is asked.
         *
         *     A sender may write working time, such as "2 working hours". Then `working` has these words, by the place where they
         *     were written: `remind.0`, `escalate.0` or `expire`.
         */
        readonly "TimelineRecord-Output": {
            readonly default?: unknown;
            /** @default [] */
            readonly escalate: readonly components["schemas"]["EscalationRecord-Output"][];
            readonly expire?: number | null;
            /** @default [] */
            readonly remind: readonly number[];
            readonly working?: {
                readonly [key: string]: string;
            } | null;
        };
        /** @description One person's accepted answer if several people must agree. Equal ballots agree. */
        readonly VoteRecord: {
            readonly ballot: string;
            readonly by: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
