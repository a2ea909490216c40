/** `svc plane`: begins runs on a node, and reads journals out of the store, while a server runs or not. */
import type { CommandCall, StateReader } from 'svcdb'
import { DEFAULT_TENANT } from 'svcdb/agents'
import { askAdmin } from './admin-client.ts'
import { manifestVerb } from './agents/verbs.ts'
import { acknowledge, drillKept, drillStore, hold, logOf } from './case-verbs.ts'
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
/** Verbs about two things. */
const TWO = new Set(['acknowledge', 'reconcile', 'quarantine', 'rearm'])
const PAGE = 500
const MAX_DEAD_LETTERS = 1000

/** @param usage what may follow the word. @returns the exit status. */
export async function runPlane(call: CommandCall, usage: string): Promise<number> {
  const [verb, subject, ...more] = call.args
  const refuse = (text: string) => {
    call.err(`svc: ${text}\n`)
    return USAGE
  }
  const extra = TWO.has(verb) ? more.slice(1) : more
  if (extra.length > 0) return refuse(`cannot use argument "${extra[0]}": write svc plane ${usage}`)
  try {
    if (verb === 'run') return subject === undefined ? refuse('cannot begin a run: name a capability') : await begin(call, subject)
    if (verb === 'validate' || verb === 'digest')
      return subject === undefined ? refuse('cannot look at a manifest: name its file') : await manifestVerb(call, verb, subject)
    if (verb === 'history') return subject === undefined ? refuse('cannot show a history: name a run') : await history(call, subject)
    if (verb === 'replay') return subject === undefined ? refuse('cannot replay: name a run') : await replay(call, subject)
    if (verb === 'dead-letters' && subject === undefined) return await reading(call, (state) => showDeadLetters(call, state))
    if (verb === 'acknowledge')
      return subject === undefined || more.length === 0
        ? refuse('cannot acknowledge: name a case and its obligation')
        : await acknowledge(call, subject, more[0])
    if (verb === 'hold') return await hold(call, subject)
    if (verb === 'waiting' && subject === undefined) return await waiting(call)
    if (verb === 'cancel') return subject === undefined ? refuse('cannot cancel: name a run') : await cancel(call, subject)
    if (verb === 'reconcile')
      return subject === undefined || more.length === 0 ? refuse('cannot reconcile: name a run and its effect') : await reconcile(call, subject, more[0])
    if (verb === 'quarantine')
      return subject === undefined || more.length === 0 ? refuse('cannot decide: name a run, and reopen or abandon') : await quarantine(call, subject, more[0])
    if (verb === 'tasks') return await tasks(call, subject)
    if (verb === 'decide') return subject === undefined ? refuse('cannot decide: name a task') : await decide(call, subject)
    if (verb === 'attention' && subject === undefined) return await attention(call)
    if (verb === 'halt') return await halt(call, subject)
    if (verb === 'rearm')
      return subject === undefined || more.length === 0 ? refuse('cannot rearm: name a run and its registration') : await rearm(call, subject, more[0])
    if (verb === 'drill' && subject === undefined && call.flags.actor !== undefined) return await drillKept(call)
    if (verb === 'drill' && subject === undefined) return await reading(call, (state) => drillStore(call, state))
    if (verb === 'export') return await reading(call, (state) => exportStore(call, state, subject))
    if (verb === 'verify' && call.flags.file !== undefined)
      return subject === undefined ? await verifyFile(call, call.flags.file) : refuse('cannot verify: name a run of the store, or a file')
    if (verb === 'verify') return await reading(call, (state) => verify(call, state, subject))
  } catch (error) {
    call.err(`svc: ${(error as Error).message}\n`)
    return OPERATIONAL
  }
  return refuse(`cannot run "plane ${verb ?? ''}": write svc plane ${usage}`)
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
  if (open === undefined) throw new Error('cannot read journals: the config names no store that is kept on this machine')
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
