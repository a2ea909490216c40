/** The series of measurements in ClickHouse: ids and tags. A series is stored before its first row is, and taken away when it is given back. */
import { randomUUID } from 'node:crypto'
import type { Matcher } from 'svcdb'
import type { TagColumn, TagSets } from 'svcdb/lib/columns'
import { compileMatchers, compileOne } from '../common/matchers.ts'
import { isStored, type Life } from './catalog.ts'
import type { Client, QueryOptions } from './client.ts'
import { bytesOf, maps, uint64s } from './native/encode.ts'
import type { LocalSeries } from './resolver.ts'
import { ID_BYTES, idOf, keyOf, literalOf } from './series-id.ts'
import { databaseOf, deleteRows, livesInGroups, type Place } from './statements.ts'
import { floats } from './values.ts'

/** Ids that are named in one statement. */
export const IDS_AT_ONCE = 2000
/** Values of a tag that a regular expression is tried on, and that are named in one statement. */
const VALUES_LOOKED_AT = 100_000
const VALUES_AT_ONCE = 1000
/** Bytes of parameters in a URL, of which ClickHouse takes 1 MiB (http_max_uri_size). */
const URL_BYTES = 200_000
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export interface StoredSeries {
  /** The bytes of its id. */
  key: string
  /** key, value, key, value ... ordered by key. */
  tags: string[]
}

/** A selection in words of ClickHouse, for the conditions that it can say exactly. */
export interface Selected {
  /** Ordered by id. */
  series: StoredSeries[]
  /** All series of the measurement are meant. */
  all: boolean
  /** The statement that finds just their ids, and its parameters; undefined when ClickHouse cannot say all of the conditions. */
  within: { statement: string; params: Record<string, string> } | undefined
}

/** A selection that is not read here. */
export interface SeriesSource {
  /** `FROM ... WHERE ...`: rows with `series` and `tags`. */
  from: string
  /** Its parameters; more may be put in (`param`). */
  params: Record<string, string>
  /** All series of the measurement are meant. */
  all: boolean
}

export class SeriesStore {
  private readonly client: Client
  private readonly place: Place

  constructor(client: Client, place: Place) {
    this.client = client
    this.place = place
  }

  /** Finds out which of the series are stored, and notes those that are. @returns false: series were given back meanwhile, so that it has to be asked again. */
  async look(life: Life, series: Iterable<LocalSeries>): Promise<boolean> {
    const missing = [...series].map((one) => idOf(one, life.number).key).filter((key) => !isStored(life, key))
    const { released } = life
    for (let at = 0; at < missing.length; at += IDS_AT_ONCE) {
      const ids = missing.slice(at, at + IDS_AT_ONCE).map(literalOf)
      const select = `SELECT series, max(since) FROM ${this.table(life.namespace)} WHERE life = ${life.number} AND series IN (${ids.join(', ')}) GROUP BY series`
      for await (const { rows, columns } of this.client.blocks(select)) {
        if (life.released !== released) return false
        const since = new BigUint64Array(columns[1].bytes.buffer)
        for (let row = 0; row < rows; row++) (Number(since[row]) < released ? life.doubtful : life.known).add(idAt(columns[0].bytes, row))
      }
    }
    return true
  }

  /** Stores series that are not. @param since the catalog's sequence: what is given back later than that is them. */
  async store(life: Life, series: readonly LocalSeries[], since: number): Promise<void> {
    const ids = new Uint8Array(series.length * ID_BYTES)
    for (const [i, one] of series.entries()) ids.set(idOf(one, life.number).bytes, i * ID_BYTES)
    const columns = [
      { name: 'life', type: 'UInt64', data: uint64s(series.map(() => life.number)) },
      { name: 'series', type: 'UInt128', data: ids },
      { name: 'since', type: 'UInt64', data: uint64s(series.map(() => since)) },
      { name: 'tags', type: 'Map(String, String)', data: maps(series.map(({ tags }) => tags)) },
    ]
    const { released } = life
    await this.client.insert(this.table(life.namespace), columns, series.length, randomUUID())
    // Given back meanwhile they are stored for nobody.
    if (life.released !== released) return
    for (const { tags } of series) for (let i = 0; i < tags.length; i += 2) life.tagKeys?.add(tags[i])
    for (const { key } of series.map((one) => idOf(one, life.number))) {
      life.known.add(key)
      life.doubtful.delete(key)
    }
  }

  /** Takes series away that were stored before. @param keys undefined = all of the measurement. */
  async remove(life: Life, keys: readonly string[] | undefined, before: number): Promise<void> {
    const all = `life = ${life.number} AND since < ${before}`
    for (const ids of inGroups(keys))
      await this.client.command(deleteRows(this.place, life.namespace, 'series', ids === undefined ? all : `${all} AND series IN (${ids})`))
  }

  /** The series that match, ordered by id. @throws BAD_REQUEST for a regular expression that does not parse or takes too long. */
  async select(life: Life, matchers: readonly Matcher[], timeoutMs: number, options: QueryOptions = {}): Promise<Selected> {
    const matches = compileMatchers(matchers, timeoutMs)
    const { from, params, exact } = this.among(life, matchers)
    const select = `SELECT series, CAST(mapKeys(tags) AS Array(String)) AS keys, CAST(mapValues(tags) AS Array(String)) AS texts ${from} ORDER BY series`
    const series: StoredSeries[] = []
    for await (const { rows, columns } of this.client.blocks(select, { ...options, params })) {
      const [ids, keys, texts] = columns
      for (let row = 0; row < rows; row++) {
        const tags = tagsOf(keys.lists?.[row] ?? [], texts.lists?.[row] ?? [])
        const found = (key: string) => tagValue(tags, key)
        if (matchers.length === 0 || matches(found)) series.push({ key: idAt(ids.bytes, row), tags })
      }
    }
    return { series, all: matchers.length === 0, within: exact ? { statement: `SELECT series ${from}`, params } : undefined }
  }

  /**
   * Where ClickHouse finds the series that match, without naming them here: of a tag with a regular expression its values are read, and tried here.
   * @returns undefined when they are too many, or too long. @throws BAD_REQUEST as `select`.
   */
  async source(life: Life, matchers: readonly Matcher[], timeoutMs: number, options: QueryOptions = {}): Promise<SeriesSource | undefined> {
    const { from, params, conditions } = this.among(life, matchers)
    const wanted: string[] = []
    for (const { tag, op, value } of matchers) {
      if (op === '=' || op === '!=' || (op === '=~' && (value === '.*' || value === '.+'))) continue
      const condition = compileOne({ op, value }, timeoutMs)
      const texts = condition.literals === undefined ? await this.valuesOf(tag, from, params, options) : [...condition.literals]
      if (texts === undefined) return undefined
      const flags = condition.flags(texts)
      const passed = texts.filter((_, i) => flags[i] === 1)
      if (passed.length > VALUES_AT_ONCE) return undefined
      const key = param(params, tag)
      wanted.push(passed.length === 0 ? '0' : `tags[${key}] IN (${passed.map((text) => param(params, text)).join(', ')})`)
      // They are also in what is asked for the next tag.
      if (new URLSearchParams(params).toString().length > URL_BYTES) return undefined
    }
    return { from: [from, ...wanted].join(' AND '), params, all: conditions === 0 && wanted.length === 0 }
  }

  private async valuesOf(tag: string, from: string, params: Record<string, string>, options: QueryOptions): Promise<string[] | undefined> {
    const own = { ...params }
    const select = `SELECT DISTINCT CAST(tags[${param(own, tag)}] AS String) ${from} LIMIT ${VALUES_LOOKED_AT + 1}`
    const texts: string[] = []
    for await (const { columns } of this.client.blocks(select, { ...options, params: own }))
      for (const text of columns[0].texts ?? []) texts.push(decoder.decode(text))
    return texts.length > VALUES_LOOKED_AT ? undefined : texts
  }

  /** Series that meet the conditions which ClickHouse can try; `exact`: all of them. */
  private among(life: Life, matchers: readonly Matcher[]): { from: string; params: Record<string, string>; conditions: number; exact: boolean } {
    const params: Record<string, string> = {}
    const conditions: string[] = []
    // An absent tag reads as the empty text, as it does here.
    for (const { tag, op, value } of matchers)
      if (op === '=' || op === '!=') conditions.push(`tags[${param(params, tag)}] ${op} ${param(params, value)}`)
      else if (op === '=~' && value === '.+') conditions.push(`tags[${param(params, tag)}] != ''`)
    const from = `FROM ${this.table(life.namespace)} FINAL WHERE ${[`life = ${life.number}`, ...conditions].join(' AND ')}`
    return { from, params, conditions: conditions.length, exact: conditions.length === matchers.length }
  }

  /** Series stored, by life. */
  async count(namespace: string): Promise<Map<number, number>> {
    const counts = new Map<number, number>()
    const select = `SELECT life, toUInt64(uniqExact(series)) FROM ${this.table(namespace)} GROUP BY life`
    for await (const { rows, columns } of this.client.blocks(select)) {
      const [lives, series] = columns.map(({ bytes }) => new BigUint64Array(bytes.buffer))
      for (let row = 0; row < rows; row++) counts.set(Number(lives[row]), Number(series[row]))
    }
    return counts
  }

  /** Tag keys in use, by life. @param lives absent = all. */
  async tagKeys(namespace: string, lives?: readonly Life[]): Promise<Map<number, string[]>> {
    const found = new Map<number, string[]>()
    const conditions = lives === undefined ? [''] : [...livesInGroups(lives.map(({ number }) => number))].map((group) => ` WHERE life IN (${group})`)
    for (const where of conditions) {
      const select = `SELECT life, CAST(groupUniqArrayArray(mapKeys(tags)) AS Array(String)) FROM ${this.table(namespace)}${where} GROUP BY life`
      for await (const { rows, columns } of this.client.blocks(select)) {
        const lives = new BigUint64Array(columns[0].bytes.buffer)
        for (let row = 0; row < rows; row++) {
          const keys = (columns[1].lists?.[row] ?? []).map((key) => decoder.decode(key))
          found.set(Number(lives[row]), keys.sort())
        }
      }
    }
    return found
  }

  /** Reads the tag keys of lives that are not known. */
  async loadTagKeys(namespace: string, lives: Iterable<Life>): Promise<void> {
    const missing = [...lives].filter(({ tagKeys }) => tagKeys === undefined)
    if (missing.length === 0) return
    const released = missing.map((life) => life.released)
    const keys = await this.tagKeys(namespace, missing)
    for (const [i, life] of missing.entries()) if (life.released === released[i]) life.tagKeys = new Set(keys.get(life.number))
  }

  /** Bytes of the tags' values of a series, on average. */
  async tagBytes(life: Life, options: QueryOptions): Promise<number> {
    const select = `SELECT ifNotFinite(avg(length(arrayStringConcat(CAST(mapValues(tags) AS Array(String))))), 0) FROM ${this.table(life.namespace)} WHERE life = ${life.number}`
    for await (const { columns } of this.client.blocks(select, options)) return floats(columns[0])[0]
    return 0
  }

  private table(namespace: string): string {
    return `${databaseOf(this.place, namespace)}.series`
  }
}

/** Tags of series, or of groups of them. */
export class StoredTags implements TagSets {
  readonly length: number
  private readonly series: readonly StoredSeries[]

  constructor(series: readonly StoredSeries[]) {
    this.series = series
    this.length = series.length
  }

  at(i: number): readonly string[] {
    return this.series[i].tags
  }

  keys(): readonly string[] {
    return [...new Set(this.series.flatMap(({ tags }) => tags.filter((_, i) => i % 2 === 0)))]
  }

  column(key: string): TagColumn {
    const texts: string[] = []
    const places = new Map<string, number>()
    const codes = Int32Array.from(this.series, ({ tags }) => {
      const text = tagValue(tags, key)
      if (text === undefined) return -1
      let code = places.get(text)
      if (code === undefined) places.set(text, (code = texts.push(text) - 1))
      return code
    })
    return { codes, texts }
  }
}

/** Lists of literals for statements of bounded length. */
export function* inGroups(keys: readonly string[] | undefined): Generator<string | undefined> {
  if (keys === undefined) yield undefined
  else
    for (let at = 0; at < keys.length; at += IDS_AT_ONCE)
      yield keys
        .slice(at, at + IDS_AT_ONCE)
        .map(literalOf)
        .join(', ')
}

/** A text as a parameter of a statement. @returns how the statement names it. */
export function param(params: Record<string, string>, text: string): string {
  const name = `p${Object.keys(params).length}`
  params[name] = text
  return `{${name}:String}`
}

export function idAt(ids: Uint8Array, row: number): string {
  return keyOf(bytesOf(ids.subarray(row * ID_BYTES)))
}

function tagValue(tags: readonly string[], key: string): string | undefined {
  for (let i = 0; i < tags.length; i += 2) if (tags[i] === key) return tags[i + 1]
  return undefined
}

function tagsOf(keys: readonly Uint8Array[], texts: readonly Uint8Array[]): string[] {
  return keys.flatMap((key, i) => [decoder.decode(key), decoder.decode(texts[i])])
}
