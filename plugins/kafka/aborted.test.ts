/** What a fetch has of transactions that were aborted, by the library's own batch of it. */
import { createRequire } from 'node:module'
import t from 'tap'
import { load } from './kafkajs-client.ts'

load()
const Batch = createRequire(import.meta.url)('kafkajs/src/consumer/batch.js')

interface Given {
  offset: number
  producer: string
  key?: Buffer
  /** The end of a transaction. */
  marker?: boolean
  plain?: boolean
}

function seen(given: Given[], aborted: [producerId: string, firstOffset: number][], from = 0): number[] {
  const messages = given.map(({ offset, producer: producerId, key = null, marker = false, plain = false }) => ({
    ...{ offset: String(offset), timestamp: '1', key, value: Buffer.from('v'), headers: {} },
    ...{ isControlRecord: marker, batchContext: { producerId, inTransaction: !plain } },
  }))
  const abortedTransactions = aborted.map(([producerId, firstOffset]) => ({ producerId, firstOffset: String(firstOffset) }))
  const batch = new Batch('t', String(from), { partition: 0, highWatermark: '100', messages, abortedTransactions })
  return batch.messages.map(({ offset }: { offset: string }) => Number(offset))
}

const ABORT = { marker: true, key: Buffer.from([0, 0, 0, 0]) }
const COMMIT = { marker: true, key: Buffer.from([0, 0, 0, 1]) }
/** The integer 0, as Kafka's own serializer writes it. */
const ZERO = Buffer.from([0, 0, 0, 0])

t.test('records of an aborted transaction are left out, those of others are there', async (t) => {
  const given = [
    { offset: 1, producer: '7' },
    { offset: 2, producer: '8' },
    { offset: 3, producer: '7', plain: true },
    { offset: 4, producer: '7', ...ABORT },
    { offset: 5, producer: '7' },
    { offset: 6, producer: '8', ...COMMIT },
    { offset: 7, producer: '7', ...COMMIT },
  ]
  t.same(seen(given, [['7', 1]]), [2, 3, 5])
  t.same(seen(given, []), [1, 2, 3, 5])
})

t.test('a key of four zeros ends no transaction', async (t) => {
  const given = [
    { offset: 1, producer: '7', key: ZERO },
    { offset: 2, producer: '7' },
    { offset: 3, producer: '7', ...ABORT },
  ]
  t.same(seen(given, [['7', 1]]), [])
})

t.test('a fetch that begins within several aborted transactions', async (t) => {
  const given = [
    { offset: 10, producer: '8' },
    { offset: 11, producer: '7' },
    { offset: 12, producer: '9' },
    { offset: 13, producer: '7', ...ABORT },
    { offset: 14, producer: '8', ...ABORT },
  ]
  const aborted: [string, number][] = [
    ['7', 5],
    ['8', 6],
  ]
  t.same(seen(given, aborted, 10), [12])
})
