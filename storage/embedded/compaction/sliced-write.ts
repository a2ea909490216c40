/**
 * Works a merge off slice by slice. One that DuckDB has no memory for is halved by the keys of its rows, and those after it are no larger: what texts of a
 * dictionary take, and how uneven slices are, no statistics tell. The rows of one key, which cannot be divided, get the memory that they take.
 */
import { rm } from 'node:fs/promises'
import { type Duck, isOutOfMemory } from '../duckdb/duckdb.ts'
import { TIME_COLUMN } from '../memtable/memtable-source.ts'
import { writeJoined } from '../segment/joined-parts.ts'
import { type Cut, keyColumns, type MergeSlice, sliceConditions } from './merge-slices.ts'

interface SlicedWriteOptions {
  duck: Duck
  /** A FROM clause's, of all inputs. */
  files: string
  shared: boolean
  /** Columns of the output. */
  columns: number
  /** As MergePlan says. */
  keyBytes: number
  /** As MergePlan says: what the columns leave of the memory may be less, and slices would be halved again and again. */
  sliceBytes: number
}

/** Does what there is to do with a slice. @returns its rows. @throws as `engineError` says. */
type Work = (slice: MergeSlice) => Promise<number>

export class SlicedWrite {
  private readonly options: SlicedWriteOptions
  private rows = 0
  /** Rows of a slice, once one has had more than there was memory for. */
  private most = Number.POSITIVE_INFINITY

  constructor(options: SlicedWriteOptions) {
    this.options = options
  }

  /**
   * Writes all rows into one file.
   * @param path must not exist. @param copy writes the rows of a slice into a file. @returns rows.
   */
  write(slices: readonly MergeSlice[], path: string, tempDir: string, copy: (slice: MergeSlice, path: string) => Promise<number>): Promise<number> {
    const { duck, columns, sliceBytes } = this.options
    const into = (to: string): Work => {
      return async (slice) => {
        await rm(to, { force: true }) // of a try that there was no memory for
        return copy(slice, to)
      }
    }
    return duck.withRoom(columns, sliceBytes, async () => {
      const parts = slices.length === 1 ? await this.one(slices[0], into(path)) : slices
      if (parts !== undefined) {
        await rm(path, { force: true })
        await writeJoined(parts, path, tempDir, (slice, to) => this.one(slice, into(to)))
      }
      return this.rows
    })
  }

  /** @param read takes the rows of a slice; once more after a try, or for a part of it, that there was no memory for. @returns rows. */
  read(slices: readonly MergeSlice[], read: Work): Promise<number> {
    const { duck, columns } = this.options
    return duck.withRoom(columns, 0, async () => {
      for (let left = slices; left.length > 0; ) {
        const [slice, ...rest] = left
        left = [...((await this.one(slice, read)) ?? []), ...rest]
      }
      return this.rows
    })
  }

  /** @returns what is to be worked off instead. */
  private async one(slice: MergeSlice, work: Work): Promise<readonly MergeSlice[] | undefined> {
    const { duck, files, shared, columns, keyBytes } = this.options
    const own = new SliceRows(duck, files, slice, shared)
    if (this.most < Number.POSITIVE_INFINITY && (await own.count()) > this.most) {
      const halves = await own.halves()
      if (halves !== undefined) return halves
    }
    try {
      this.rows += await duck.turns.beside(() => work(slice))
      return undefined
    } catch (error) {
      if (!isOutOfMemory(error)) throw error
      const halves = await own.halves()
      if (halves === undefined) {
        this.rows += await duck.turns.alone(() => duck.withRoom(columns, keyBytes, () => work(slice)))
        return undefined
      }
      this.most = Math.min(this.most, (await own.count()) / 2)
      return halves
    }
  }
}

/** The rows of a slice, wherever they lie. */
class SliceRows {
  private readonly duck: Duck
  private readonly from: string
  private readonly keys: readonly string[]
  private readonly slice: MergeSlice

  constructor(duck: Duck, files: string, slice: MergeSlice, shared: boolean) {
    const conditions = sliceConditions(slice, shared)
    this.duck = duck
    this.slice = slice
    this.from = `FROM ${files}${conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`}`
    this.keys = keyColumns(shared).map((name) => (name === TIME_COLUMN ? `epoch_ns(${name})` : `${name}::BIGINT`))
  }

  async count(): Promise<number> {
    const [{ n }] = await this.duck.run(`SELECT count(*)::DOUBLE AS n ${this.from}`)
    return Number(n)
  }

  /** @returns two slices of about as many rows; undefined when all rows have one key, or some have none, and so no place. */
  async halves(): Promise<[MergeSlice, MergeSlice] | undefined> {
    const { duck, from, slice } = this
    const [{ unplaced }] = await duck.run(`SELECT count(*) FILTER (WHERE (${this.keys.join(' + ')}) IS NULL)::DOUBLE AS unplaced ${from}`)
    if (Number(unplaced) > 0) return undefined
    const [least, next] = await this.cuts(`SELECT DISTINCT ${this.listed()} ${from} ORDER BY ALL LIMIT 2`)
    if (next === undefined) return undefined
    const [middle] = await this.cuts(`SELECT ${this.listed()} ${from} ORDER BY ALL LIMIT 1 OFFSET ${Math.floor((await this.count()) / 2)}`)
    const cut = middle.every((part, i) => part === least[i]) ? next : middle
    return [
      { from: slice.from, to: cut },
      { from: cut, to: slice.to },
    ]
  }

  private listed(): string {
    return this.keys.map((key, i) => `${key} AS k${i}`).join(', ')
  }

  private async cuts(sql: string): Promise<Cut[]> {
    const rows = await this.duck.run(sql)
    return rows.map((row) => this.keys.map((_, i) => BigInt(row[`k${i}`] as bigint)))
  }
}
