/**
 * Which chunks have which fields. Looked up once for all of them: rows that set few of very many fields make many chunks with few of them each, so that to ask
 * each chunk for each field would take many times as long as there are values.
 */
import type { ChunkView, ColumnView } from './chunk-view.ts'

export interface FieldView {
  /** Of the field, its place among those asked for. */
  place: number
  /** Place of the chunk. */
  chunk: number
  view: ColumnView
  mayBeNull: boolean
}

/** A chunk has fewer than one in so many of the fields. */
const FEW = 4

export class FieldViews {
  readonly chunks: readonly ChunkView[]
  /** By chunk. */
  readonly within: readonly FieldView[][]
  private readonly byField: FieldView[][]
  private readonly places: ReadonlyMap<number, number>
  private total = 0

  /** @param fields their ids. */
  constructor(chunks: readonly ChunkView[], fields: readonly number[]) {
    this.chunks = chunks
    this.places = new Map(fields.map((field, place) => [field, place]))
    this.byField = fields.map(() => [])
    this.within = chunks.map((chunk, c) => {
      const own: FieldView[] = []
      const keep = (field: number): void => {
        const place = this.places.get(field)
        const view = place === undefined ? undefined : chunk.columns.get(field)
        if (view !== undefined && place !== undefined) own.push({ place, chunk: c, view, mayBeNull: chunk.hasNulls(view) })
      }
      if (chunk.columns.size < fields.length) for (const field of chunk.columns.fields()) keep(field)
      else for (const field of fields) keep(field)
      for (const each of own) this.byField[each.place].push(each)
      this.total += own.length
      return own
    })
  }

  /** The chunks that have the field, in their order. */
  of(field: number): readonly FieldView[] {
    return this.byField[this.places.get(field) ?? -1] ?? []
  }

  hasNonFinite(field: number): boolean {
    return this.of(field).some(({ chunk, view }) => this.chunks[chunk].hasNonFinite(view))
  }

  /** Most chunks have few of the fields. */
  get isSparse(): boolean {
    return this.total * FEW < this.chunks.length * this.byField.length
  }
}
