/** CommandGetSqlInfo: what this server can do, as (number, value) pairs whose values are of one of six types (FlightSql.proto, SqlInfo). */
import { Bool, DenseUnion, Field, Int32, Int64, List, Map_, makeData, makeVector, Struct, Uint32, Utf8, vectorFromArray } from 'apache-arrow'
import { type FlightTable, required, tableOf } from './flight-table.ts'

/** In the order of the union's members, by which their numbers go. */
const MEMBERS = ['string', 'bool', 'bigint', 'int32', 'strings', 'conversions'] as const
type Member = (typeof MEMBERS)[number]

export type SqlInfoValue =
  | { string: string }
  | { bool: boolean }
  | { bigint: number }
  /** Ordinals and bit masks. */
  | { int32: number }
  | { strings: readonly string[] }
  /** From type to types, numbers of SqlSupportsConvert. */
  | { conversions: ReadonlyMap<number, readonly number[]> }

const utf8 = new Utf8()
const int32 = new Int32()
const int64 = new Int64()
const bool = new Bool()
const stringList = new List(new Field('string_data', utf8, true))
const targets = new List(new Field('$data$', int32, true))
const entries = new Struct<{ key: Int32; value: typeof targets }>([new Field('key', int32, false), new Field('value', targets, true)] as never)
const conversionMap = new Map_(new Field('entries', entries, false))

const union = new DenseUnion(
  [0, 1, 2, 3, 4, 5],
  [
    new Field('string_value', utf8, true),
    new Field('bool_value', bool, true),
    new Field('bigint_value', int64, true),
    new Field('int32_bitmask', int32, true),
    new Field('string_list', stringList, true),
    new Field('int32_to_int32_list_map', conversionMap, true),
  ],
)
const SQL_INFO_FIELDS: Field[] = [required('info_name', new Uint32()), required('value', union)]

/** @param wanted numbers; all when empty. Drivers ask for what newer servers tell: a number there is nothing under is left out. */
export function sqlInfo(values: ReadonlyMap<number, SqlInfoValue>, wanted: readonly number[]): FlightTable {
  const numbers = wanted.length === 0 ? [...values.keys()] : [...new Set(wanted)].filter((number) => values.has(number))
  const members: Record<Member, unknown[]> = { string: [], bool: [], bigint: [], int32: [], strings: [], conversions: [] }
  const typeIds = new Int8Array(numbers.length)
  const offsets = new Int32Array(numbers.length)
  for (const [row, number] of numbers.entries()) {
    const [[member, content]] = Object.entries(values.get(number) as SqlInfoValue) as [Member, unknown][]
    typeIds[row] = MEMBERS.indexOf(member)
    offsets[row] = members[member].push(content) - 1
  }
  const children = [
    vectorFromArray(members.string as string[], utf8).data[0],
    vectorFromArray(members.bool as boolean[], bool).data[0],
    vectorFromArray((members.bigint as number[]).map(BigInt), int64).data[0],
    vectorFromArray(members.int32 as number[], int32).data[0],
    vectorFromArray(members.strings as string[][], stringList as never).data[0],
    conversions(members.conversions as ReadonlyMap<number, readonly number[]>[]),
  ]
  const value = makeData({ type: union, length: numbers.length, typeIds, valueOffsets: offsets, children: children as never })
  return tableOf(SQL_INFO_FIELDS, [makeVector(Uint32Array.from(numbers)).data[0], value], numbers.length)
}

/** Maps whose keys are numbers: the library's builder makes text of them. */
function conversions(maps: ReadonlyMap<number, readonly number[]>[]) {
  const keys = maps.flatMap((map) => [...map.keys()])
  const lists = maps.flatMap((map) => [...map.values()])
  const ends = Int32Array.from([0, ...running(maps.map(({ size }) => size))])
  const values = makeData({
    type: targets,
    length: lists.length,
    nullCount: 0,
    valueOffsets: Int32Array.from([0, ...running(lists.map(({ length }) => length))]),
    child: makeVector(Int32Array.from(lists.flat())).data[0] as never,
  })
  const pairs = makeData({ type: entries, length: keys.length, nullCount: 0, children: [makeVector(Int32Array.from(keys)).data[0], values] as never })
  return makeData({ type: conversionMap as never, length: maps.length, nullCount: 0, valueOffsets: ends, child: pairs as never })
}

function running(sizes: readonly number[]): number[] {
  let sum = 0
  return sizes.map((size) => (sum += size))
}
