/** `svc plane`: begins runs on a node, and reads journals out of the store, while a server runs or not. */
import type { CommandCall, StateReader } from 'svcdb'
import { DEFAULT_TENANT } from 'svcdb/agents'
import { didYouMean } from 'svcdb/lib/text'
import { askAdmin } from './admin-client.ts'
import { manifestVerb } from './agents/verbs.ts'
import { acknowledge, drillKept, drillStore, hold, logOf } from './case-verbs.ts'
import { FORMS, type Verb } from './command.ts'
import { attention, halt, rearm } from './control-verbs.ts'
import { exportStore, verifyFile } from './export-verbs.ts'
import { isRunId } from './record/names.ts'
import { decode, verified } from './record/record.ts'
import { historyOfNode, replay } from './replay-verbs.ts'
import { cancel, quarantine, reconcile, waiting } from './run-verbs.ts'
import { deadLetters } from './store/events.ts'
import { headOf, recordsOf } from './store/journal.ts'
import { tenantReader } from './store/tenant.ts'
import { decide, tasks } from './task-verbs.ts'

const OK = 0
const NEGATIVE = 1
const USAGE = 2
const SUSPENDED = 3
const OPERATIONAL = 4
const POLL_MS = 200
const PAGE = 500
const MAX_DEAD_LETTERS = 1000

/** What each verb does with the words that follow it: as many as its form asks for at least. */
const ACTS: Record<Verb, (call: CommandCall, ...words: string[]) => Promise<number>> = {
  run: begin,
  history,
  replay,
  verify: (call, run?: string) => (call.flags.file === undefined ? reading(call, (state) => verify(call, state, run)) : verifyFile(call, call.flags.file)),
  export: (call, run?: string) => reading(call, (state) => exportStore(call, state, run)),
  'dead-letters': (call) => reading(call, (state) => showDeadLetters(call, state)),
  acknowledge,
  hold,
  drill: (call) => (call.flags.actor === undefined ? reading(call, (state) => drillStore(call, state)) : drillKept(call)),
  waiting,
  cancel,
  reconcile,
  quarantine,
  attention,
  halt,
  rearm,
  tasks,
  decide,
  validate: (call, file) => manifestVerb(call, 'validate', file),
  digest: (call, file) => manifestVerb(call, 'digest', file),
}

/** @returns the exit status. */
export async function runPlane(call: CommandCall): Promise<number> {
  const [verb, ...words] = call.args
  const wrong =
    misuse(verb, words) ?? (verb === 'verify' && words.length > 0 && call.flags.file !== undefined ? 'name a run of the store, or a file' : undefined)
  if (wrong !== undefined) {
    call.err(`svc: cannot run "${['plane', ...call.args.slice(0, 1)].join(' ')}": ${wrong}\n`)
    return USAGE
  }
  try {
    return await ACTS[verb as Verb](call, ...words)
  } catch (error) {
    call.err(`svc: ${(error as Error).message}\n`)
    return OPERATIONAL
  }
}

/** What is wrong with the words of a call, and what to write. */
function misuse(verb: string | undefined, words: readonly string[]): string | undefined {
  if (verb === undefined || !Object.hasOwn(FORMS, verb))
    return `${didYouMean(verb ?? '', Object.keys(FORMS), `the verbs are ${Object.keys(FORMS).join(', ')}`)}`
  const [asked] = FORMS[verb as Verb]
  const known = asked === '' ? [] : asked.split(' ')
  const missing = known.filter((word) => !word.startsWith('[')).at(words.length)
  if (missing === undefined && words.length <= known.length) return undefined
  const first = missing !== undefined && /^[A-Z]+$/.test(missing) ? `name ${/^[AEIO]/.test(missing) ? 'an' : 'a'} ${missing.toLowerCase()}; ` : ''
  return `${first}write svc plane ${verb} ${asked}`.trimEnd()
}

interface Answer {
  run: string
  status: string
  error?: string
}

async function begin(call: CommandCall, capability: string): Promise<number> {
  const { flags, out, err } = call
  let input: unknown
  let matter: unknown
  try {
    input = JSON.parse(flags.input ?? 'null')
    matter = flags.case === undefined ? undefined : JSON.parse(flags.case)
  } catch (error) {
    err(`svc: cannot use --input or --case: it is not JSON: ${(error as Error).message}\n`)
    return USAGE
  }
  const key = flags.key === undefined ? {} : { idempotency_key: flags.key }
  let answer = await askAdmin<Answer>(call, '', { capability, input, case: matter, ...key })
  if (flags['no-wait'] === undefined) {
    while ((answer = await askAdmin<Answer>(call, `/${answer.run}`)).status === 'running') await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  out(`${JSON.stringify(answer)}\n`)
  if (answer.status === 'suspended') return SUSPENDED
  return answer.status === 'succeeded' || flags['no-wait'] !== undefined ? OK : NEGATIVE
}

async function reading({ config, flags }: CommandCall, read: (state: StateReader) => Promise<number>): Promise<number> {
  const open = await (await config()).openState()
  if (open === undefined)
    throw new Error('cannot read journals: the config names no store that is kept on this machine; name the file of one that does with --config')
  try {
    return await read(tenantReader(open.state, flags.tenant ?? DEFAULT_TENANT))
  } finally {
    await open.close()
  }
}

/** @throws BrokenChain. */
async function recordsIn(state: StateReader, run: string) {
  const head = await headOf(state, run)
  return verified(run, (await recordsOf(state, run)).slice(0, head.seq), head)
}

async function showDeadLetters({ out }: CommandCall, state: StateReader): Promise<number> {
  for (const letter of await deadLetters(state, MAX_DEAD_LETTERS)) out(`${JSON.stringify(letter)}\n`)
  return OK
}

/** Of a node with its address or a token, else out of the store. */
async function history(call: CommandCall, run: string): Promise<number> {
  if (call.flags.actor === undefined && (call.flags.url !== undefined || call.env.SVC_TOKEN !== undefined)) return historyOfNode(call, run)
  return reading(call, (state) => historyIn(call, state, run))
}

async function historyIn({ out, err }: CommandCall, state: StateReader, run: string): Promise<number> {
  const sealed = isRunId(run) ? await recordsOf(state, run) : []
  if (sealed.length === 0) {
    err(`svc: cannot find run ${JSON.stringify(run.slice(0, 64))}: there is none\n`)
    return NEGATIVE
  }
  for (const { raw } of sealed) {
    decode(raw)
    out(`${raw}\n`)
  }
  return OK
}

async function verify({ out, err, flags }: CommandCall, state: StateReader, only: string | undefined): Promise<number> {
  let [runs, records, broken] = [0, 0, 0]
  for (let start = 'head/'; ; ) {
    const page = await state.list({ prefix: `head/${only ?? ''}`, start, limit: PAGE })
    for (const { key } of page) {
      const run = key.slice('head/'.length)
      if (only !== undefined && run !== only) continue
      runs++
      try {
        records += (await recordsIn(state, run)).length
      } catch (error) {
        broken++
        err(`broken: ${(error as Error).message}\n`)
      }
    }
    if (page.length < PAGE) break
    start = `${page[page.length - 1].key}\0`
  }
  if (only !== undefined && runs === 0) {
    err(`svc: cannot find run ${JSON.stringify(only.slice(0, 64))}: there is none\n`)
    return NEGATIVE
  }
  const { text, faults } = await logOf(state, flags.tenant ?? DEFAULT_TENANT, only)
  for (const fault of faults) err(`broken: ${fault}\n`)
  out(`${runs - broken} of ${runs} runs whole, ${records} records\n${text}\n`)
  return broken + faults.length === 0 ? OK : NEGATIVE
}
