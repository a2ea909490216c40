/**
 * Random messages, written by another encoder, through the decoders of Flight and Flight SQL; and damaged ones, which are decoded or refused.
 * node plugins/flight_sql/commands.fuzz.ts [seconds] [seed]
 */
import { deepStrictEqual } from 'node:assert'
import { fromJSON } from '@grpc/proto-loader'
import { type Random, seeded } from 'svcdb/lib/random'
import { backfillOf } from './app-metadata.ts'
import { readCommand, writeAny } from './commands.ts'
import { readAction, readBasicAuth, readFlightData, readHandshake, ticketsOf } from './messages.ts'

/** Shapes as FlightSql.proto and Flight.proto have them. */
const text = (id: number, optional = false) => ({ type: 'string', id, ...(optional && { options: { proto3_optional: true } }) })
const message = (fields: Record<string, object>, nested?: object) => ({ fields, ...(nested !== undefined && { nested }) })
const TYPES = {
  CommandStatementQuery: message({ query: text(1) }),
  CommandGetTables: message({
    catalog: text(1, true),
    schemaPattern: text(2, true),
    namePattern: text(3, true),
    types: { rule: 'repeated', ...text(4) },
    includeSchema: { type: 'bool', id: 5 },
  }),
  CommandGetSqlInfo: message({ info: { rule: 'repeated', type: 'uint32', id: 1 } }),
  CommandStatementIngest: message(
    {
      table_definition_options: { type: 'TableDefinitionOptions', id: 1 },
      table: text(2),
      schema: text(3, true),
      catalog: text(4, true),
      temporary: { type: 'bool', id: 5 },
      options: { keyType: 'string', type: 'string', id: 1000 },
    },
    { TableDefinitionOptions: message({ if_not_exist: { type: 'int32', id: 1 }, if_exists: { type: 'int32', id: 2 } }) },
  ),
  FlightDescriptor: message({ type: { type: 'int32', id: 1 }, cmd: { type: 'bytes', id: 2 }, path: { rule: 'repeated', ...text(3) } }),
  FlightData: message({
    flight_descriptor: { type: 'FlightDescriptor', id: 1 },
    data_header: { type: 'bytes', id: 2 },
    app_metadata: { type: 'bytes', id: 3 },
    unknown: { type: 'double', id: 77 },
    data_body: { type: 'bytes', id: 1000 },
  }),
}
const methods = Object.fromEntries(Object.keys(TYPES).map((name) => [name, { requestType: name, responseType: name }]))
const service = fromJSON({ nested: { ...TYPES, Encoder: { methods } } } as never, { keepCase: true }).Encoder as unknown as Record<
  string,
  { requestSerialize(value: object): Buffer }
>
const encode = (name: keyof typeof TYPES, value: object): Buffer => service[name].requestSerialize(value)

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]
const TEXTS = ['', 'cpu', 'my "table"', 'ünï %_\\', '漢字', 'x'.repeat(300), '{"backfill": true}']
const bytes = (random: Random): Buffer => Buffer.from(Array.from({ length: Math.floor(random() * 300) }, () => Math.floor(random() * 256)))
const maybe = <T>(random: Random, name: string, value: T): Record<string, T> => (random() < 0.5 ? { [name]: value } : {})
const texts = (random: Random): string[] => Array.from({ length: Math.floor(random() * 4) }, () => pick(random, TEXTS))

/** A message, and what reading it is to give. */
function sample(random: Random): { bytes: Uint8Array; read(bytes: Uint8Array): unknown; expected: unknown } {
  const table = { ...maybe(random, 'catalog', pick(random, TEXTS)), ...maybe(random, 'schema', pick(random, TEXTS)) }
  const command = (name: keyof typeof TYPES, value: object) => ({ bytes: writeAny(name, encode(name, value)), read: readCommand })
  switch (Math.floor(random() * 5)) {
    case 0: {
      const query = pick(random, TEXTS)
      return { ...command('CommandStatementQuery', { query }), expected: { kind: 'query', query } }
    }
    case 1: {
      const filter = {
        ...maybe(random, 'catalog', pick(random, TEXTS)),
        ...maybe(random, 'schemaPattern', pick(random, TEXTS)),
        types: texts(random),
        includeSchema: random() < 0.5,
      }
      return { ...command('CommandGetTables', filter), expected: { kind: 'tables', filter } }
    }
    case 2: {
      const info = Array.from({ length: Math.floor(random() * 20) }, () => Math.floor(random() * 2 ** Math.floor(random() * 33)))
      return { ...command('CommandGetSqlInfo', { info }), expected: { kind: 'sql_info', info } }
    }
    case 3: {
      const options = Object.fromEntries(texts(random).map((key) => [key, pick(random, TEXTS)]))
      const ingest = { ifAbsent: Math.floor(random() * 4), ifExists: Math.floor(random() * 4), table: pick(random, TEXTS), ...table, temporary: random() < 0.5 }
      const value = { ...ingest, table_definition_options: { if_not_exist: ingest.ifAbsent, if_exists: ingest.ifExists }, options }
      return { ...command('CommandStatementIngest', value), expected: { kind: 'ingest', ingest: { ...ingest, options: new Map(Object.entries(options)) } } }
    }
    default: {
      const descriptor = { type: Math.floor(random() * 3), cmd: bytes(random), path: texts(random) }
      const value = { data_header: bytes(random), app_metadata: bytes(random), data_body: bytes(random) }
      const message = encode('FlightData', { ...value, flight_descriptor: descriptor, ...maybe(random, 'unknown', 1.5) })
      const expected = { descriptor, header: value.data_header, appMetadata: value.app_metadata, body: value.data_body, message }
      return { bytes: message, read: (given) => plain(readFlightData(given)), expected }
    }
  }
}

/** Bytes as one class of array. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value)
  if (typeof value !== 'object' || value === null || value instanceof Map || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, plain(member)]))
}

function corruption(random: Random, given: Uint8Array): Buffer {
  const corrupted = Buffer.from(given)
  for (let i = 1 + Math.floor(random() * 3); i > 0 && corrupted.length > 0; i--) corrupted[Math.floor(random() * corrupted.length)] = Math.floor(random() * 256)
  return random() < 0.3 ? corrupted.subarray(0, Math.floor(random() * corrupted.length)) : corrupted
}

const READERS = [readCommand, readFlightData, readAction, readHandshake, readBasicAuth, ticketsOf, backfillOf]

/** Runs while `goesOn(messages)` holds; returns how many messages were read. @throws when one is read wrongly, or fails otherwise than by being refused. */
export function fuzz(seed: number, goesOn: (messages: number) => boolean): number {
  const random = seeded(seed)
  let messages = 0
  for (; goesOn(messages); messages++) {
    const { bytes: whole, read, expected } = sample(random)
    deepStrictEqual(read(whole), expected, `seed ${seed}: ${Buffer.from(whole).toString('hex')}`)
    const corrupted = corruption(random, whole)
    for (const reader of READERS) {
      try {
        reader(corrupted)
      } catch (error) {
        if ((error as { code?: string }).code !== 'BAD_REQUEST') throw new Error(`seed ${seed}, ${reader.name}: ${corrupted.toString('hex')}`, { cause: error })
      }
    }
  }
  return messages
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(process.argv[3] ?? Date.now() % 1e9)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  console.log(`seed ${seed}: ${fuzz(seed, () => Date.now() < until)} messages, no difference`)
}
