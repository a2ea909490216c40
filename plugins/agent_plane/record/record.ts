/**
 * Records of a run's journal, as docs/formats/plane-records.md has them. A body is canonical JSON; hash = SHA-256(hash before it, bytes of the body), and
 * before the first are 32 zero bytes. Nothing else is read: a body of another version, kind or member is refused.
 */
import { hash } from 'node:crypto'
import { SvcError } from 'svcdb/lib/errors'
import { atOnce, type Work } from 'svcdb/lib/event-loop'
import { canonical } from './canonical.ts'

const RECORD_VERSION = 1
/** How arguments and inputs are written: named by each run, so that another way can come. */
export const CANON = 'rfc8785'
const MAX_RECORD_BYTES = 1 << 20
/** Of what somebody gives to be kept in a record: the rest is for what the record says beside. */
export const MAX_CONTENT_BYTES = MAX_RECORD_BYTES - 16_384
/** Hexadecimal, of no record. */
export const CHAIN_START = '0'.repeat(64)

export type Payload = Record<string, unknown>

/** What a record is before it has its place. */
export interface NewRecord {
  kind: string
  step?: number
  /** Absent = forward. */
  phase?: 'compensating'
  effectKey?: string
  /** Absent = that of its run. */
  case?: string
  payload: Payload
}

export interface JournalRecord extends NewRecord {
  seq: number
  run: string
  epoch: number
}

/** As it is kept. */
export interface Sealed {
  raw: string
  /** Hexadecimal. */
  hash: string
}

/** Members of each kind, those that may be absent with `?`. */
const KINDS: Readonly<Record<string, string>> = {
  RunAdmitted: 'capability input input_label canon governed_by? policy_bundle? idempotency_key? admitted_by? served_unchained? plane_chain?',
  QuotaPassStarted: 'period? release_slot',
  PlanFrozen: 'steps plan',
  StepStarted: 'skill',
  StepFinished: 'outcome',
  Note: 'text',
  EffectStarted: 'descriptor recovery mutates attempt backoff_ms outbound_label? outbound_bytes? content_rules? credential?',
  EffectDone: 'output source? by? spend? declared content? elapsed_ms?',
  EffectFailed: 'error disposition permanent? spend? elapsed_ms?',
  EffectReconciled: 'disposition output? spend? detail? note? declared? asserted_by?',
  StepCompensated: 'compensation outcome',
  QuarantineDecided: 'decider reason decision',
  GroupOpened: 'group resources',
  GroupSettled: 'group outcome detail?',
  BudgetRefused: 'limit used',
  BudgetReadmitted: 'limit',
  AuthorityWithheld: 'subject reason by',
  AuthorityRestored: 'subject',
  IdentityBound: 'chain',
  DataSubjectBound: 'bindings',
  PolicyDenied: 'reason action resource',
  RunSuspended: 'reason',
  CaseBound: 'case_kind opened correlation?',
  DeadlineRegistered: 'name resolved_at calendar_digest',
  DeadlineTransition: 'name from to',
  Released: 'releaser release label field_labels value',
  RunCancelled: 'actor reason',
  RunConcluded: 'outcome reason? exhaustion? live_spend? chain_head',
  BreakGlass: 'actor roles reason',
  HaltLifted: 'scope by at reason thrown_by thrown_at',
  HoldReleased: 'by at placed_by placed_at',
  Swept: 'subject action detail?',
  Observed: 'session reported detail?',
}
/** By kind and member: whether it has to be there. */
const PAYLOADS = new Map(
  Object.entries(KINDS).map(([kind, members]) => [kind, new Map(members.split(' ').map((name) => [name.replace('?', ''), !name.endsWith('?')]))]),
)

/** Members of a body that are not its payload's. */
const ENVELOPE = new Set(['seq', 'run', 'case', 'step', 'phase', 'epoch', 'v', 'effect_key', 'kind'])

interface Member {
  name: string
  /** As it is written. */
  key: string
  isEnvelope: boolean
}

/** Members of a body by kind, in order. */
const ORDERS = new Map(
  [...PAYLOADS].map(([kind, members]): [string, readonly Member[]] => [
    kind,
    [...ENVELOPE, ...members.keys()].sort().map((name) => ({ name, key: `${JSON.stringify(name)}:`, isEnvelope: ENVELOPE.has(name) })),
  ]),
)

/** No record can have it: it is too large, or has no form as JSON. It would be the same again. */
export class UnfitRecord extends SvcError {}

/** @throws UnfitRecord BAD_REQUEST, for more than `MAX_RECORD_BYTES` among others. */
export function seal(record: JournalRecord, previous: string): Sealed {
  const { kind, payload } = record
  checkPayload(kind, payload)
  let raw: string
  try {
    raw = textOf(record)
  } catch (error) {
    throw new UnfitRecord('BAD_REQUEST', `cannot keep a record "${kind}": ${(error as Error).message}`)
  }
  const bytes = Buffer.byteLength(raw)
  if (bytes > MAX_RECORD_BYTES)
    throw new UnfitRecord(
      'BAD_REQUEST',
      `cannot keep a record "${kind}": it has ${bytes} bytes, and ${MAX_RECORD_BYTES} is the limit; keep less in the journal`,
    )
  return { raw, hash: chained(previous, raw) }
}

/** Canonical: members in the order in which their kind has them, which is that of their names. */
function textOf({ kind, effectKey, payload, step, phase, seq, run, epoch, case: matter }: JournalRecord): string {
  const envelope: Payload = { seq, run, case: matter, step, phase, epoch, v: RECORD_VERSION, effect_key: effectKey, kind }
  let text = ''
  for (const { name, key, isEnvelope } of ORDERS.get(kind) as readonly Member[]) {
    const value = isEnvelope ? envelope[name] : payload[name]
    if (value !== undefined) text += text === '' ? key + canonical(value) : `,${key}${canonical(value)}`
  }
  return `{${text}}`
}

const HASH_BYTES = 32
/** UTF-8 takes three bytes for a UTF-16 unit at most. */
const MAX_UNIT_BYTES = 3
const scratch = Buffer.alloc(32 << 10)

/** The hash of a record that follows the one with this hash. */
function chained(previous: string, raw: string): string {
  const most = HASH_BYTES + raw.length * MAX_UNIT_BYTES
  const bytes = most <= scratch.length ? scratch : Buffer.allocUnsafe(most)
  bytes.write(previous, 0, 'hex')
  return hash('sha256', bytes.subarray(0, HASH_BYTES + bytes.write(raw, HASH_BYTES)))
}

/** @throws Error for what is no record of this version. */
export function decode(raw: string): JournalRecord {
  const body = JSON.parse(raw) as Payload
  const { seq, run, case: matter, step, phase, epoch, v, effect_key, kind } = body
  const payload: Payload = {}
  for (const name in body) if (!ENVELOPE.has(name)) payload[name] = body[name]
  const refuse = (why: string) => new Error(`cannot read record: ${why}`)
  if (v !== RECORD_VERSION) throw refuse(`its version is ${JSON.stringify(v)}, and this server reads ${RECORD_VERSION}`)
  if (!isCount(seq) || seq === 0 || !isCount(epoch) || typeof run !== 'string' || typeof kind !== 'string') throw refuse('seq, epoch, run or kind is none')
  if ((step !== undefined && !isCount(step)) || (phase !== undefined && phase !== 'compensating')) throw refuse('its step or phase is none')
  if ((matter !== undefined && typeof matter !== 'string') || (effect_key !== undefined && typeof effect_key !== 'string'))
    throw refuse('its case or effect is none')
  checkPayload(kind, payload)
  const record: JournalRecord = { seq, run, epoch, kind, payload }
  if (matter !== undefined) record.case = matter
  if (step !== undefined) record.step = step
  if (phase !== undefined) record.phase = phase
  if (effect_key !== undefined) record.effectKey = effect_key
  return record
}

function checkPayload(kind: string, payload: Payload): void {
  const known = PAYLOADS.get(kind)
  if (known === undefined) throw new Error(`cannot use a record of kind ${JSON.stringify(kind)}: there is none`)
  for (const [name, isNeeded] of known) if (isNeeded && payload[name] === undefined) throw new Error(`cannot use a record "${kind}": "${name}" is not there`)
  for (const name in payload) if (!known.has(name)) throw new Error(`cannot use a record "${kind}": it has no member ${JSON.stringify(name)}`)
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** @param run that it should be of. @param seq that it should have. */
type ReadRecord = (raw: string, run: string, seq: number) => JournalRecord

/** What breaks a chain. */
export class BrokenChain extends Error {}

/**
 * The records of a run, in order, checked against each other: in turns, for there may be very many.
 * @param head the hash of the last one. @param read `decode`, or what reads less. @throws BrokenChain naming the first record that is not what was written.
 */
export function* verifying(run: string, sealed: readonly Sealed[], head: { seq: number; hash: string }, read: ReadRecord = decode): Work<JournalRecord[]> {
  const broken = (seq: number, why: string) => new BrokenChain(`cannot use the journal of "${run}": record ${seq} ${why}`)
  let previous = CHAIN_START
  const records: JournalRecord[] = []
  for (const [index, { raw, hash }] of sealed.entries()) {
    const seq = index + 1
    previous = chained(previous, raw)
    if (previous !== hash) throw broken(seq, 'does not follow from those before it')
    let record: JournalRecord
    try {
      record = read(raw, run, seq)
    } catch (error) {
      throw broken(seq, `cannot be read: ${(error as Error).message}`)
    }
    if (record.seq !== seq || record.run !== run) throw broken(seq, `says that it is record ${record.seq} of "${record.run}"`)
    if (record.kind === 'RunConcluded' && record.payload.chain_head !== (sealed[index - 1]?.hash ?? CHAIN_START)) throw broken(seq, 'names another head')
    records.push(record)
    yield
  }
  if (records.length !== head.seq || previous !== head.hash) throw broken(records.length, `is the last one, and the head is ${head.seq}`)
  return records
}

/** As `verifying`, without interruption. */
export function verified(...given: Parameters<typeof verifying>): JournalRecord[] {
  return atOnce(verifying(...given))
}
