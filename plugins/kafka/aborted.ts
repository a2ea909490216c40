/**
 * Records of transactions that were aborted (Kafka, KIP-98), which the library looks for as well: it takes a record whose key is four zeros, as that of the integer 0 is,
 * for the end of its transaction, and begins one transaction at each record, where a fetch may begin within several.
 */
import type { LibraryRecord } from './record-batches.ts'

interface Transaction {
  producerId: string
  /** Decimal digits. */
  firstOffset: string
}

/** Of a control record: a version, and what it says. */
const ABORT = Buffer.from([0, 0, 0, 0])

/** @param abortedTransactions of the fetch: those that have records in it. @returns the other records, and what controls transactions. */
export function withoutAborted({
  messages,
  abortedTransactions,
}: {
  messages: LibraryRecord[]
  abortedTransactions?: readonly Transaction[] | null
}): LibraryRecord[] {
  if (abortedTransactions == null || abortedTransactions.length === 0) return messages
  const begins = [...abortedTransactions].sort((a, b) => Number(a.firstOffset) - Number(b.firstOffset))
  const aborted = new Set<string>()
  let next = 0
  return messages.filter(({ offset, isControlRecord, key, batchContext }) => {
    for (; next < begins.length && Number(begins[next].firstOffset) <= Number(offset); next++) aborted.add(begins[next].producerId)
    // Formats before that of batches know no transactions.
    if (batchContext === undefined) return true
    const { producerId, inTransaction } = batchContext
    if (isControlRecord) {
      if (key?.equals(ABORT)) aborted.delete(producerId)
      return true
    }
    return !(inTransaction && aborted.has(producerId))
  })
}
