/** Collects what a change cursor hands out, copied, since it is lent. */
import { setTimeout } from 'node:timers/promises'
import { type Change, type ChangedRow, type ChangeRequest, changedRows, type RowsChanged, type SeriesDeleted, type Storage } from 'svcdb'

export type Told =
  | (Pick<RowsChanged, 'kind' | 'position' | 'sequence' | 'namespace' | 'measurement' | 'backfill'> & { rows: ChangedRow[] })
  | (Omit<SeriesDeleted, 'series'> & { series: Record<string, string>[] | undefined })
  | Exclude<Change, { kind: 'rows' | 'series_deleted' }>

export interface Follower {
  readonly told: Told[]
  /** Waits until so many have come, or, after a while, for no more. */
  until(count: number): Promise<Told[]>
  /** Waits for what is on its way, then ends. */
  stop(): Promise<Told[]>
}

const PATIENCE_MS = 10_000
/** In which something that must not come would have come. */
const QUIET_MS = 30

export function follow(engine: Storage, request?: ChangeRequest): Follower {
  const cursor = engine.changes(request)
  const told: Told[] = []
  const ended = (async () => {
    for await (const change of cursor) told.push(copyOf(change))
  })()
  return {
    told,
    async until(count) {
      for (const end = Date.now() + PATIENCE_MS; told.length < count && Date.now() < end; ) await setTimeout(2)
      return told
    },
    async stop() {
      // What was answered before it was durable is told once it is.
      await engine.flush()
      for (const end = Date.now() + PATIENCE_MS; cursor.behind > 0 && Date.now() < end; ) await setTimeout(2)
      await setTimeout(QUIET_MS)
      cursor.close()
      await ended
      return told
    },
  }
}

export function copyOf(change: Change): Told {
  if (change.kind === 'rows') {
    const { kind, position, sequence, namespace, measurement, backfill } = change
    return { kind, position, sequence, namespace, measurement, backfill, rows: [...changedRows(change)] }
  }
  if (change.kind === 'series_deleted') return { ...change, series: change.series === undefined ? undefined : [...change.series()] }
  return change
}

/** Rows as text, to compare: `m {"host":"a"} 17 v=1.5`. */
export function textOf(told: readonly Told[]): string[] {
  return told.flatMap((change) => {
    if (change.kind === 'rows')
      return change.rows.map(({ measurement, tags, time, fields }) => {
        const values = fields.map(({ name, value }) => `${name}=${value instanceof Uint8Array ? Buffer.from(value).toString('hex') : String(value)}`).sort()
        return `${change.namespace}/${measurement} ${JSON.stringify(tags)} ${time} ${values.join(' ')}`.trimEnd()
      })
    if (change.kind === 'gap') return [`gap ${change.cause}`]
    if (change.kind !== 'series_deleted') return [`${change.kind} ${change.namespace}/${change.measurement}`]
    const series =
      change.series
        ?.map((tags) => JSON.stringify(tags))
        .sort()
        .join(' ') ?? 'all'
    return [`series_deleted ${change.namespace}/${change.measurement} ${change.start ?? ''}..${change.end ?? ''} ${series}`]
  })
}
