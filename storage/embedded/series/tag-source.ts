/** The series of a measurement with their tags as a row source: text, or ENUM codes over a dictionary in byte order. */
import type bindings from '@duckdb/node-bindings'
import type { RowSource } from '../duckdb/duckdb.ts'
import { duckdb } from '../duckdb/native.ts'
import { copyValidity, copyValues, writeTexts } from '../duckdb/vector-writer.ts'
import { BLOCK_ROWS } from '../memtable/chunk-view.ts'
import { SERIES_COLUMN } from '../memtable/memtable-source.ts'
import type { MeasurementDef } from '../threads/definitions.ts'
import type { SeriesView } from './series-view.ts'

/** With more distinct values the dictionary costs more than it saves. */
const ENUM_VALUES = 100_000
/** While series keep coming, a dictionary larger than this is not built anew for every query. */
const ENUM_EAGER_VALUES = 4_096
const ABSENT = -1

export interface Dictionary {
  type: bindings.LogicalType
  width: 1 | 2 | 4
  /** Symbol → place in the dictionary. */
  codes: Map<number, number>
}

interface DictionaryState {
  symbols: Set<number>
  /** Series of the measurement looked through. */
  upTo: number
  /** Series there were when the dictionary was last asked for. */
  askedAt: number
  dictionary: Dictionary | undefined
}

/** Of a measurement, by the tag's symbol: as long as its list loses no series, whose positions the states go by. */
interface MeasurementState {
  losses: number
  keys: Map<number, DictionaryState>
}

export class TagDictionaries {
  private readonly series: SeriesView
  private readonly states = new Map<number, MeasurementState>()

  constructor(series: SeriesView) {
    this.series = series
  }

  /** The dictionary of a tag, if it has one that holds all values in use. */
  get(measurement: number, key: number): Dictionary | undefined {
    const list = this.series.of(measurement)
    const keys = this.keysOf(measurement)
    let state = keys.get(key)
    if (state === undefined) keys.set(key, (state = { symbols: new Set(), upTo: 0, askedAt: -1, dictionary: undefined }))
    const before = state.symbols.size
    for (; state.upTo < list.length && state.symbols.size <= ENUM_VALUES; state.upTo++) {
      const symbol = this.series.tagSymbol(list[state.upTo], key)
      if (symbol !== ABSENT) state.symbols.add(symbol)
    }
    if (state.symbols.size > ENUM_VALUES || state.symbols.size === 0) return undefined
    if (state.symbols.size !== before) state.dictionary = undefined
    const stable = state.askedAt === list.length
    state.askedAt = list.length
    if (state.dictionary === undefined && (stable || state.symbols.size <= ENUM_EAGER_VALUES)) state.dictionary = sortedDictionary(this.series, state.symbols)
    return state.dictionary
  }

  forget(measurement: number): void {
    this.states.delete(measurement)
  }

  private keysOf(measurement: number): Map<number, DictionaryState> {
    const losses = this.series.lossesOf(measurement)
    let state = this.states.get(measurement)
    if (state?.losses !== losses) this.states.set(measurement, (state = { losses, keys: new Map() }))
    return state.keys
  }
}

/** Codes in the byte order of the texts. */
function sortedDictionary(series: SeriesView, symbols: Set<number>): Dictionary {
  const sorted = [...symbols].map((symbol) => ({ symbol, bytes: Buffer.from(series.text(symbol)) })).sort((a, b) => Buffer.compare(a.bytes, b.bytes))
  return dictionary(
    sorted.map(({ symbol }) => symbol),
    (symbol) => series.text(symbol),
  )
}

function dictionary(symbols: readonly number[], text: (symbol: number) => string): Dictionary {
  const type = duckdb().create_enum_type(symbols.map(text))
  const internal = duckdb().enum_internal_type(type)
  return {
    type,
    width: internal === duckdb().Type.UTINYINT ? 1 : internal === duckdb().Type.USMALLINT ? 2 : 4,
    codes: new Map(symbols.map((symbol, i) => [symbol, i])),
  }
}

/** Dictionaries of just the values that some series have, however many and in no order; for a statement of its own. */
export function dictionariesOf(view: SeriesView, series: Int32Array): Pick<TagDictionaries, 'get'> {
  return {
    get(_measurement, key) {
      const symbols = new Set<number>()
      for (const number of series) {
        const symbol = view.tagSymbol(number, key)
        if (symbol !== ABSENT) symbols.add(symbol)
      }
      // Not the view's texts, which it would keep: this may go through all there are.
      return symbols.size === 0 ? undefined : dictionary([...symbols], (symbol) => Buffer.from(view.bytes(symbol)).toString())
    },
  }
}

export interface TagColumn {
  key: string
  /** The tag's name in SQL. */
  column: string
}

/** By definition, of the keys there were. */
const named = new WeakMap<MeasurementDef, { keys: readonly string[]; fields: number; columns: readonly TagColumn[] }>()

/** SQL names of a measurement's tags: the key, unless `_time` or a field has that name already (names compare without case). @param keys a list that never changes. */
export function tagColumns(def: MeasurementDef, keys: readonly string[]): readonly TagColumn[] {
  const known = named.get(def)
  if (known?.keys === keys && known.fields === def.fields.length) return known.columns
  const columns = nameTags(def, keys)
  named.set(def, { keys, fields: def.fields.length, columns })
  return columns
}

function nameTags(def: MeasurementDef, keys: readonly string[]): TagColumn[] {
  const taken = new Set([SERIES_COLUMN, '_time', ...def.fields.map((field) => field.column.toLowerCase())])
  return keys.map((key) => {
    let column = key
    for (let n = 1; taken.has(column.toLowerCase()); n++) column = n === 1 ? `${key}_tag` : `${key}_tag${n}`
    taken.add(column.toLowerCase())
    return { key, column }
  })
}

/** Columns: _series, then the tags wanted. */
export function tagSource(
  view: SeriesView,
  dictionaries: Pick<TagDictionaries, 'get'>,
  measurement: number,
  series: Int32Array,
  tags: { key: string; column: string; enumerated: boolean }[],
): RowSource {
  const columns = tags.map(({ key, column, enumerated }) => {
    const symbol = view.keySymbol(measurement, key)
    const dictionary = enumerated && symbol !== ABSENT ? dictionaries.get(measurement, symbol) : undefined
    return { symbol, dictionary, name: column, type: dictionary?.type ?? duckdb().create_logical_type(duckdb().Type.VARCHAR) }
  })
  const codes = new ArrayBuffer(BLOCK_ROWS * 4)
  const bits = new Uint8Array(BLOCK_ROWS / 8)
  const symbols = new Int32Array(BLOCK_ROWS)

  const write = (vector: bindings.Vector, column: (typeof columns)[number], from: number, n: number): void => {
    bits.fill(0)
    let present = 0
    for (let i = 0; i < n; i++) {
      const symbol = column.symbol === ABSENT ? ABSENT : view.tagSymbol(series[from + i], column.symbol)
      symbols[i] = symbol
      if (symbol === ABSENT) continue
      bits[i >> 3] |= 1 << (i & 7)
      present++
    }
    const { dictionary } = column
    if (dictionary === undefined) {
      writeTexts(vector, n, present < n, bits, (i) => view.bytes(symbols[i]))
      return
    }
    const out = dictionary.width === 1 ? new Uint8Array(codes) : dictionary.width === 2 ? new Uint16Array(codes) : new Uint32Array(codes)
    for (let i = 0; i < n; i++) out[i] = symbols[i] === ABSENT ? 0 : dictionary.codes.get(symbols[i])!
    copyValues(vector, codes, 0, n * dictionary.width)
    if (present < n) copyValidity(vector, bits.buffer, 0, n)
  }

  return {
    columns: [{ name: SERIES_COLUMN, type: duckdb().create_logical_type(duckdb().Type.INTEGER) }, ...columns],
    rows: series.length,
    open(projected) {
      let at = 0
      return {
        next(vectors) {
          const from = at
          const n = Math.max(0, Math.min(BLOCK_ROWS, series.length - from))
          for (let c = 0; n > 0 && c < vectors.length; c++) {
            const column = projected[c]
            if (column === 0) {
              const numbers = series.slice(from, from + n)
              copyValues(vectors[c], numbers.buffer, 0, n * 4)
            } else if (column <= columns.length) write(vectors[c], columns[column - 1], from, n)
          }
          at += n
          return n
        },
      }
    },
  }
}
