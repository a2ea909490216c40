/** Record batches that are put over Flight SQL: many tiny ones, many columns, dictionaries that each of them refers to or that grow with each. */
import { Client, credentials, Metadata } from '@grpc/grpc-js'
import { type Data, Dictionary, Field, Float64, Int32, makeData, RecordBatch, Schema, Struct, Table, tableToIPC, Utf8, Vector } from 'apache-arrow'
import t from 'tap'
import { PATH } from '../../../plugins/flight_sql/messages.ts'
import { message } from '../../../plugins/flight_sql/testing.ts'
import { messagesOf } from '../../../plugins/flight_sql/testing-stream.ts'
import { type Family, grows, processorMsOf } from '../../support/growth.ts'
import { bytesOf } from '../loop-body.ts'
import { growthNode } from './requests.ts'

const BYTES = 1_600_000
/** What a message takes beside its values. */
const MESSAGE_BYTES = 500
const ANSWER_MS = 60_000
const FIELD_ROLE = new Map([['role', 'field']])

const numbers = (values: number[]): Data => makeData({ type: new Float64(), length: values.length, nullCount: 0, data: Float64Array.from(values) })
const texts = (count: number, text: (i: number) => string): Data => {
  const each = Array.from({ length: count }, (_, i) => Buffer.from(text(i)))
  const valueOffsets = new Int32Array(count + 1)
  for (const [i, { length }] of each.entries()) valueOffsets[i + 1] = valueOffsets[i] + length
  return makeData({ type: new Utf8(), length: count, nullCount: 0, valueOffsets, data: Buffer.concat(each) })
}
const list = <T>(count: number, item: (i: number) => T): T[] => Array.from({ length: Math.max(1, Math.floor(count)) }, (_, i) => item(i))

/** A stream of batches of the columns `c0`, `c1`, … and the field `v`. */
function stream(batches: Data[][], rows = 1, role?: Map<string, string>): Uint8Array[] {
  const fields = batches[0].map(({ type }, i) => new Field(`c${i}`, type, true, role)).concat(new Field('v', new Float64(), true))
  const schema = new Schema(fields)
  const table = new Table(
    schema,
    batches.map((columns, at) => {
      const children = [...columns, numbers(list(rows, () => at))]
      return new RecordBatch(schema, makeData({ type: new Struct(fields), length: rows, nullCount: 0, children }))
    }),
  )
  return messagesOf(tableToIPC(table, 'stream')).map(({ header, body }, i) =>
    message({ ...(i === 0 && { 1: message({ 1: PATH, 3: role === undefined ? 'tags' : 'fields' }) }), 2: header, 1000: body }),
  )
}

const TYPE = new Dictionary(new Utf8(), new Int32(), 1)
const row = (index: number, dictionary: Vector): Data => makeData({ type: TYPE, length: 1, nullCount: 0, data: Int32Array.of(index), dictionary } as never)
/** Half of the bytes are a dictionary, the other half batches of a row. */
const oneDictionary =
  (role?: Map<string, string>): Family<Uint8Array[]> =>
  (bytes) => {
    const entries = new Vector([texts(bytes / 2 / 10, (i) => `v${i}`)])
    return stream(
      list(bytes / 2 / MESSAGE_BYTES, (i) => [row(i % 50, entries)]),
      1,
      role,
    )
  }
/** Each batch of a row comes with a part of the dictionary. */
const parts =
  (role?: Map<string, string>): Family<Uint8Array[]> =>
  (bytes) => {
    const known: Data[] = []
    const count = 1000
    return stream(
      list(count, (i) => {
        known.push(texts(bytes / count / 10, (entry) => `w${i}_${entry}`))
        return [row(i % 50, new Vector([...known]))]
      }),
      1,
      role,
    )
  }

const FAMILIES: Record<string, Family<Uint8Array[]>> = {
  'batches of a row': (bytes) => stream(list(bytes / MESSAGE_BYTES, () => [])),
  'many columns': (bytes) => stream(list(bytes / 56_000, () => list(1000, () => numbers([1])))),
  'many tags': (bytes) => stream(list(bytes / 2500, (i) => list(30, (tag) => texts(1, () => `x${(i + tag) % 7}`)))),
  'a tag of a large dictionary': oneDictionary(),
  'a field of a large dictionary': oneDictionary(FIELD_ROLE),
  'a tag of a dictionary in parts': parts(),
  'a field of a dictionary in parts': parts(FIELD_ROLE),
  'new series': (bytes) => {
    const rows = Math.max(1, Math.floor(bytes / 24))
    return stream([[texts(rows, (i) => `s${i}`)]], rows)
  },
}

t.test('record batches', async (t) => {
  const node = await growthNode(t, ['flight_sql'], { flight_sql: { addr: '127.0.0.1:0' } })
  const client = new Client(`127.0.0.1:${node.port('flight_sql')}`, credentials.createInsecure())
  t.teardown(() => client.close())
  for (const [name, family] of Object.entries(FAMILIES)) {
    const answers = new Set<string>()
    await grows(t, name, { bytes: BYTES }, (bytes) => {
      const messages = family(bytes).map(bytesOf)
      return processorMsOf(async () => answers.add(await put(client, messages)))
    })
    t.same([...answers], ['0 '], name)
  }
})

const same = (bytes: Buffer): Buffer => bytes

/** @returns status and its message. */
function put(client: Client, messages: readonly Buffer[]): Promise<string> {
  return new Promise((resolve) => {
    const sent = client.makeBidiStreamRequest('/arrow.flight.protocol.FlightService/DoPut', same, same, new Metadata(), { deadline: Date.now() + ANSWER_MS })
    sent.on('data', () => {})
    sent.on('error', () => {})
    sent.on('status', ({ code, details }) => resolve(`${code} ${details}`))
    for (const each of messages) sent.write(each)
    sent.end()
  })
}
