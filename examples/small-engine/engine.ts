/** A storage engine that appends points to a file, a line each, and reads nothing: the least that a node can write to. */
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type FieldInfo,
  type MeasurementInfo,
  type MeasurementRef,
  type NamespaceGuard,
  type SeriesResolver,
  type StorageContext,
  type StorageEngine,
  SvcError,
  Type,
} from 'svcdb'
import { type TableBatch, valueAt, WriteBatch } from 'svcdb/lib/columns'

export const capabilities = new Set(['points'])
export const configSchema = Type.Object({ data_dir: Type.String({ default: './points', description: 'Folder of points.jsonl' }) })

interface Measurement extends MeasurementRef {
  readonly fields: Map<string, FieldInfo>
}

/** Names become numbers of this process, which never mean anything else. */
class Names implements SeriesResolver {
  readonly epoch = 0
  readonly measurements = new Map<string, Measurement>()
  readonly all: { measurement: Measurement; tags: Record<string, string> }[] = []
  private readonly numbers = new Map<string, number>()

  measurement(namespace: string, name: string): Measurement {
    if (name === '') throw new SvcError('INVALID_POINT', 'cannot use measurement "": a name has a character at least')
    const key = JSON.stringify([namespace, name])
    const known = this.measurements.get(key) ?? { namespace, name, id: this.measurements.size, fields: new Map() }
    this.measurements.set(key, known)
    return known
  }

  of(namespace: string, only?: string): Measurement[] {
    return [...this.measurements.values()].filter((known) => known.namespace === namespace && (only ?? known.name) === known.name)
  }

  series(measurement: MeasurementRef, pairs: readonly string[]): number {
    const tags: Record<string, string> = {}
    // A tag with an empty value is none.
    for (let i = 0; i < pairs.length; i += 2) if (pairs[i + 1] !== '') tags[pairs[i]] = pairs[i + 1]
    const key = JSON.stringify([measurement.id, Object.entries(tags).sort()])
    const number = this.numbers.get(key) ?? this.all.push({ measurement: measurement as Measurement, tags }) - 1
    this.numbers.set(key, number)
    return number
  }
}

export function createEngine({ config, now }: StorageContext): StorageEngine {
  const names = new Names()
  let file: FileHandle | undefined
  let guard: NamespaceGuard | undefined
  let last: Promise<unknown> = Promise.resolve()

  const lacks = (what: string) => (): never => {
    throw new SvcError('METHOD_NOT_ALLOWED', `cannot ${what}: the storage engine takes points and reads none`)
  }

  function* lines(table: TableBatch, text: Uint8Array): Generator<string> {
    for (let row = 0; row < table.rows; row++) {
      // A table may hold rows of several measurements (`table.measurement` is null then): the series knows its own.
      const { measurement, tags } = names.all[table.series[row]]
      const time = (BigInt(table.time[2 * row + 1]) << 32n) | BigInt(table.time[2 * row] >>> 0)
      const fields: Record<string, string> = {}
      for (const column of table.columns) {
        if (!column.has(row)) continue
        measurement.fields.set(column.name, { name: column.name, type: column.type })
        fields[column.name] = String(valueAt(column, row, text))
      }
      yield `${JSON.stringify({ measurement: measurement.name, tags, time: String(time), fields })}\n`
    }
  }

  return {
    capabilities,
    resolver: names,
    async open() {
      await mkdir(String(config.data_dir), { recursive: true })
      file = await open(join(String(config.data_dir), 'points.jsonl'), 'a')
    },
    async close() {
      await last
      await file?.close()
      file = undefined
    },
    status: () => ({ accepting: file !== undefined }),
    batch: (namespace) => Object.assign(new WriteBatch(names), { namespace }),
    recycle() {},
    // Writes take effect in the order of the calls, and are acknowledged when they are on the disk.
    async write(batch) {
      const refusal = guard?.refusal(batch.namespace)
      if (refusal !== undefined) throw refusal
      if (file === undefined) throw new SvcError('DATABASE_CLOSED', 'cannot write: the engine is closed')
      const [to, text] = [file, batch.tables.flatMap((table) => [...lines(table, batch.heap.bytes)]).join('')]
      const written = last.then(async () => {
        await to.appendFile(text)
        await to.datasync()
      })
      last = written.catch(() => {})
      await written
      return { written: batch.rows, rejected: 0, rejections: [] }
    },
    async flush() {
      await last
    },
    measurements: async (namespace, only) => names.of(namespace, only).map(infoOf),
    async measurementsPage({ namespace, offset = 0, limit }) {
      const all = names.of(namespace)
      return { items: all.slice(offset, offset + limit).map(infoOf), total: all.length }
    },
    namespaces: async () => [...new Set([...names.measurements.values()].map(({ namespace }) => namespace))].sort(),
    usage: async () => ({ series: names.all.length, measurements: names.measurements.size, bytes: 0 }),
    admission: async () => ({ newest: BigInt(now() + 3_600_000) * 1_000_000n }),
    guard: (given) => {
      guard = given
    },
    holdRetention: () => () => {},
    declareField: lacks('declare fields'),
    delete: lacks('delete points'),
    drop: lacks('drop measurements'),
    restore: lacks('restore measurements'),
    scan: lacks('read points'),
    explain: lacks('read points'),
    run: lacks('run jobs'),
    changes: lacks('tell changes'),
    state: lacks('keep state'),
  }
}

function infoOf({ name, fields }: Measurement): MeasurementInfo {
  return { name, tags: [], fields: [...fields.values()] }
}
