/**
 * Journals in the state store: records by run and number, and a head that says where the next one goes. A record is appended under the epoch of a lease, which
 * is looked up in the same transaction: whoever has lost it appends nothing.
 */
import type { StateReader, StateTransaction } from 'svcdb'
import { nextTurn } from 'svcdb/lib/event-loop'
import { CHAIN_START, type JournalRecord, type NewRecord, type Sealed, seal } from '../record/record.ts'
import { Fenced, leaseOf } from './leases.ts'

const DIGITS = 12
const PAGE = 500
/** Records that are read at one time where bytes count: each may have a MiB. */
const FEW = 8

export interface Head {
  seq: number
  /** Of the last record. */
  hash: string
  /** That the run is in; its records bear it. */
  case?: string
}

const recordKey = (run: string, seq: number): string => `record/${run}/${String(seq).padStart(DIGITS, '0')}`

export async function headOf(state: StateReader, run: string): Promise<Head> {
  return (await state.get<Head>(`head/${run}`)) ?? { seq: 0, hash: CHAIN_START }
}

/** @param from the number of the first one wanted. */
export async function recordsOf(state: StateReader, run: string, from = 1, limit = Number.POSITIVE_INFINITY): Promise<Sealed[]> {
  const found: Sealed[] = []
  for (let next = from; found.length < limit; ) {
    const page = await state.list<Sealed>({ prefix: `record/${run}/`, start: recordKey(run, next), limit: Math.min(PAGE, limit - found.length) })
    for (const { value } of page) found.push(value)
    if (page.length < PAGE) break
    next += page.length
    await nextTurn()
  }
  return found
}

/**
 * As many as have room in `maxBytes`, but one at least. @returns `more`: the next one had none.
 * @param from the number of the first one wanted.
 */
export async function recordsWithin(
  state: StateReader,
  run: string,
  from: number,
  limit: number,
  maxBytes: number,
): Promise<{ found: Sealed[]; more: boolean }> {
  const found: Sealed[] = []
  for (let bytes = 0; found.length < limit; await nextTurn()) {
    const asked = Math.min(FEW, limit - found.length)
    const page = await recordsOf(state, run, from + found.length, asked)
    for (const sealed of page) {
      bytes += sealed.raw.length
      if (found.length > 0 && bytes > maxBytes) return { found, more: true }
      found.push(sealed)
    }
    if (page.length < asked) break
  }
  return { found, more: false }
}

/** Records with their places behind a head, and what the head then is. */
export interface Appended {
  records: JournalRecord[]
  sealed: Sealed[]
  head: Head
}

/** @throws UnfitRecord. */
export function sealed(run: string, epoch: number, from: Head, added: readonly NewRecord[]): Appended {
  let { seq, hash } = from
  const records: JournalRecord[] = []
  const bodies: Sealed[] = []
  for (const one of added) {
    const record: JournalRecord = { ...(from.case === undefined ? {} : { case: from.case }), ...one, run, epoch, seq: ++seq }
    if (record.kind === 'RunConcluded') record.payload = { ...record.payload, chain_head: hash }
    const body = seal(record, hash)
    hash = body.hash
    records.push(record)
    bodies.push(body)
  }
  return { records, sealed: bodies, head: { ...from, seq, hash } }
}

/** @throws Fenced when the epoch is no longer that of the lease, or the journal does not end where the caller believes. */
export async function requireOwned(tx: StateTransaction, run: string, epoch: number, expected: Head): Promise<void> {
  const lease = await leaseOf(tx, run)
  const head = await headOf(tx, run)
  if (lease?.epoch !== epoch || head.seq !== expected.seq || head.hash !== expected.hash) throw new Fenced(run, epoch)
}

/** Behind `requireOwned`. */
export function store(tx: StateTransaction, run: string, { records, sealed: bodies, head }: Appended): void {
  if (records.length === 0) return
  for (const [index, { seq }] of records.entries()) tx.put(recordKey(run, seq), bodies[index])
  tx.put(`head/${run}`, head)
}

/**
 * @param expected where the caller believes the journal to end. @param matter the case that the run is in: with its first record. @throws Fenced; BAD_REQUEST as
 * `sealed`.
 */
export async function append(
  tx: StateTransaction,
  run: string,
  epoch: number,
  expected: Head,
  added: readonly NewRecord[],
  matter?: string,
): Promise<Appended> {
  await requireOwned(tx, run, epoch, expected)
  const appended = sealed(run, epoch, expected.seq === 0 && matter !== undefined ? { ...expected, case: matter } : expected, added)
  store(tx, run, appended)
  return appended
}
