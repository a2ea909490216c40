/**
 * Journals in the state store: records by run and number, and a head that says where the next one goes. A record is appended under the epoch of a lease, which
 * is looked up in the same transaction: whoever has lost it appends nothing.
 */
import type { StateReader, StateTransaction } from 'svcdb'
import { CHAIN_START, type JournalRecord, type NewRecord, type Sealed, seal } from '../record/record.ts'
import { Fenced, leaseOf } from './leases.ts'

const DIGITS = 12
const PAGE = 500

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
  }
  return found
}

/** Appended, and what the head then is. */
export interface Appended {
  records: JournalRecord[]
  head: Head
}

/**
 * @param expected where the caller believes the journal to end. @param matter the case that the run is in: with its first record. @throws Fenced when the epoch is no longer that of the lease, or the end is elsewhere.
 */
export async function append(
  tx: StateTransaction,
  run: string,
  epoch: number,
  expected: Head,
  added: readonly NewRecord[],
  matter?: string,
): Promise<Appended> {
  const lease = await leaseOf(tx, run)
  const head = await headOf(tx, run)
  if (lease?.epoch !== epoch || head.seq !== expected.seq || head.hash !== expected.hash) throw new Fenced(run, epoch)
  if (added.length === 0) return { records: [], head }
  let { seq, hash } = head
  if (seq === 0 && matter !== undefined) head.case = matter
  const records = added.map((one) => {
    const record: JournalRecord = { ...(head.case === undefined ? {} : { case: head.case }), ...one, run, epoch, seq: ++seq }
    if (record.kind === 'RunConcluded') record.payload = { ...record.payload, chain_head: hash }
    const sealed = seal(record, hash)
    hash = sealed.hash
    tx.put(recordKey(run, seq), sealed)
    return record
  })
  const end: Head = { ...head, seq, hash }
  tx.put(`head/${run}`, end)
  return { records, head: end }
}
