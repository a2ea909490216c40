import type { Command } from 'svcdb'

export const URL_DEFAULT = 'http://127.0.0.1:8086'

/** By verb: what follows it, and what it does. Words in brackets may be left out. */
export const FORMS = {
  run: ['CAPABILITY', 'begins a run on a node and waits for it'],
  history: ['RUN', 'prints the records of a run: of a node with --url or SVC_TOKEN, else out of the store'],
  replay: ['RUN', 'runs the code of a node against the journal of a run, or has the run go on'],
  verify: ['[RUN]', 'checks the chains of all runs and the transparency log, or one run, or an export with --file'],
  export: ['[RUN]', 'writes an export of all runs and cases, or one run'],
  'dead-letters': ['', 'prints events that no run has waited for'],
  acknowledge: ['CASE OBLIGATION', 'accounts for a breached obligation'],
  hold: ['[CASE]', 'holds a case, or lists those that are held'],
  drill: ['', 'drills the store, and keeps the verdict with --actor'],
  waiting: ['', 'shows what waits'],
  cancel: ['RUN', 'cancels a run'],
  reconcile: ['RUN EFFECT', 'says what became of an effect in doubt'],
  quarantine: ['RUN reopen|abandon', 'reopens or abandons a quarantined run'],
  attention: ['', 'shows what needs a person'],
  halt: ['[SCOPE]', 'halts, and lifts halts; without a scope it lists them'],
  rearm: ['RUN ID', 'has a parked push tried again'],
  tasks: ['[TASK]', 'shows tasks that wait for a person, or one'],
  decide: ['TASK', 'decides a task'],
  validate: ['FILE', 'checks the manifest of an agent'],
  digest: ['FILE', 'prints the digest of a manifest'],
} as const satisfies Record<string, readonly [words: string, summary: string]>

export type Verb = keyof typeof FORMS

export const planeCommand: Command = {
  name: 'plane',
  sharedWith: ['operator_api'],
  summary:
    'Begins runs of agents, shows them, and does what needs a person. Exits 0, 1 negative or a finding, 2 usage, 3 suspended, 4 not possible, 5 a partial answer, 6 an export that cannot be verified',
  forms: Object.entries(FORMS).map(([verb, [words, summary]]) => ({ usage: `${verb} ${words}`.trim(), summary })),
  flags: {
    input: { description: 'run: its input, JSON; default null' },
    case: { description: 'run: the case that it is in, JSON: {"id"}, or {"kind", "correlation": [{"namespace", "value"}]}' },
    key: { description: 'run: an idempotency key; a run that was begun with it is the answer' },
    note: { description: 'acknowledge, reconcile: what there is to say; default none' },
    reason: { description: 'hold, halt: why; places it. cancel, quarantine, decide: why' },
    output: { description: 'reconcile: what the effect gave, JSON, which says that it landed; without it that it did not happen' },
    release: { description: 'hold: ends it. tasks: gives the task back', boolean: true },
    claim: { description: 'tasks: takes the task, so that nobody else decides it', boolean: true },
    takeover: { description: 'tasks: takes the task from the actor that has it' },
    approve: { description: 'decide: what is proposed may be done', boolean: true },
    reject: { description: 'decide: it may not', boolean: true },
    digest: { description: 'decide: that of the task as it was shown; another proposal is not decided' },
    amendment: { description: 'decide: JSON that replaces the arguments of what is approved; of a rejection advice' },
    lift: { description: 'halt: lifts the one of this scope', boolean: true },
    lifted: { description: 'halt: lists those that were lifted, and not those that stand', boolean: true },
    released: { description: 'hold: lists those that were released, and not those that stand', boolean: true },
    file: { description: 'verify: the export to check' },
    resume: { description: 'replay: has the run go on', boolean: true },
    actor: {
      description:
        'Who acts, on the store of a node that is stopped and not over its API, for all verbs that act by it: what is done goes on when the node starts, and is recorded as asserted',
    },
    roles: { description: 'With --actor: the roles that the actor has, with commas between' },
    api: { description: 'Where the operator API is on the node; default /api/v1/plane' },
    url: { description: `Where the node is; default ${URL_DEFAULT}. SVC_TOKEN is the bearer token` },
    tenant: { description: 'Whose plane, where no token says it; default "default"' },
    'no-wait': { description: 'run: does not wait until it suspends or ends', boolean: true },
  },
  usageCode: 2,
  // Nothing of the plane is loaded for a command line that does not name it.
  run: async (call) => (await import('./verbs.ts')).runPlane(call),
}
