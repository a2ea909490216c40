/** A change cursor whose changes come as messages: copies without functions. What is wanted is decided here. */
import type { Change, ChangeCursor, ChangePosition, ChangeRequest, FieldInfo, MeasurementFilter, RowsChanged } from 'svcdb'
import { Column } from 'svcdb/lib/columns'
import { wanted } from '../../storage/common/change-places.ts'

interface ColumnMessage {
  bytes: Uint8Array
  validity: Uint8Array | undefined
  next: number
  nonFinite: boolean
}

type RowsMessage = Omit<RowsChanged, 'columns' | 'tagsOf'> & { columns: ColumnMessage[]; tags: Map<number, Record<string, string>> }
type DeletedMessage = Omit<Extract<Change, { kind: 'series_deleted' }>, 'series'> & { listed: Record<string, string>[] | undefined }
export type ChangeMessage = RowsMessage | DeletedMessage | Exclude<Change, { kind: 'rows' | 'series_deleted' }>

export function messageOfChange(change: Change): ChangeMessage {
  if (change.kind === 'series_deleted') {
    const { series, ...rest } = change
    return { ...rest, listed: series === undefined ? undefined : [...series()] }
  }
  if (change.kind !== 'rows') return change
  const { columns, tagsOf, ...rest } = change
  const tags = new Map([...new Set(change.series.subarray(0, change.rows))].map((number) => [number, change.tagsOf(number)]))
  return { ...rest, columns: columns.map(({ u8, validity, next, nonFinite }) => ({ bytes: u8, validity, next, nonFinite })), tags }
}

function changeOf(message: ChangeMessage): Change {
  if (message.kind === 'series_deleted') {
    const { listed, ...rest } = message
    return listed === undefined ? rest : { ...rest, series: () => listed }
  }
  if (message.kind !== 'rows') return message
  const { tags, ...rest } = message
  return {
    ...rest,
    columns: message.columns.map((column, i) => columnOf(column, message.fields[i], message.rows)),
    tagsOf: (series) => ({ ...tags.get(series) }),
  }
}

function columnOf({ bytes, validity, next, nonFinite }: ColumnMessage, { name, type }: FieldInfo, rows: number): Column {
  const column = new Column(name, type, rows)
  column.u8.set(bytes.subarray(0, column.u8.length))
  column.validity = validity
  column.next = next
  column.nonFinite = nonFinite
  return column
}

export class RemoteCursor implements ChangeCursor {
  /** Not known here. */
  readonly behind = 0
  private readonly id: number
  private readonly ask: <T>(kind: string, body: unknown) => Promise<T>
  private readonly begun: Promise<unknown>
  private readonly signal: AbortSignal | undefined
  private isWanted: (measurement: string, namespace: string) => boolean
  private closed = false
  private readonly ended = Promise.withResolvers<undefined>()

  constructor(id: number, { signal, measurements, ...request }: ChangeRequest, ask: <T>(kind: string, body: unknown) => Promise<T>) {
    this.id = id
    this.ask = ask
    this.signal = signal
    this.isWanted = wanted(measurements)
    this.begun = ask('changes', { id, request })
    this.begun.catch(() => {})
    if (signal?.aborted) this.close()
    signal?.addEventListener('abort', this.close, { once: true })
  }

  async position(): Promise<ChangePosition> {
    await this.begun
    return this.ask('changes position', this.id)
  }

  select(measurements: MeasurementFilter | undefined): void {
    this.isWanted = wanted(measurements)
  }

  async next(): Promise<IteratorResult<Change, undefined>> {
    await this.begun
    while (!this.closed) {
      const message = await Promise.race([this.ask<ChangeMessage | undefined>('changes next', this.id).catch(() => undefined), this.ended.promise])
      if (message === undefined) break
      if (message.kind === 'gap' || this.isWanted(message.measurement, message.namespace)) return { done: false, value: changeOf(message) }
    }
    return { done: true, value: undefined }
  }

  readonly close = (): void => {
    if (this.closed) return
    this.closed = true
    this.signal?.removeEventListener('abort', this.close)
    this.ended.resolve(undefined)
    this.begun.then(() => this.ask('changes end', this.id)).catch(() => {})
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Change> {
    try {
      for (let next = await this.next(); !next.done; next = await this.next()) yield next.value
    } finally {
      this.close()
    }
  }
}
