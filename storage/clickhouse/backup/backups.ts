/**
 * The engine's BackupService, by ClickHouse's BACKUP and RESTORE on a disk of its own. A backup has two parts: first the points of all namespaces, then the catalog.
 * So no table in it has a column that its catalog does not know: the other way round the next field would be taken for that column.
 */
import { randomUUID } from 'node:crypto'
import { resolve } from 'node:path'
import type { BackupManifest, BackupService } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { CatalogLog } from '../catalog-log.ts'
import { Client } from '../client.ts'
import { type ClickHouseSection, isPrefix } from '../config.ts'
import { define, hasTables } from '../definitions.ts'
import { int64s, strings } from '../native/encode.ts'
import { namespacePart, type Place, tablesOf } from '../statements.ts'
import type { Tables } from '../tables.ts'
import { texts } from '../topology.ts'
import { type Copied, Copy, isTable, OF_ANY_SIZE } from './copy.ts'
import { backupFault, OperationFault } from './faults.ts'
import { type Figures, Operations } from './operations.ts'
import { backupCatalog, backupPoints, createRecords, dropDatabase, dropRecord, type Part, RECORD_COLUMNS } from './statements.ts'

const VERSION = 1
const DAY_MS = 86_400_000
const NOTHING: Figures = { files: 0, bytes: 0 }

export interface BackupSurroundings {
  section: ClickHouseSection
  disk: string
  client: Client
  place: Place
  log: CatalogLog
  tables: Tables
  /** Milliseconds since the Unix epoch. */
  now(): number
  /** Told of databases that could not be removed. */
  left(told: { databases: readonly string[]; err: unknown }): void
}

export class Backups implements BackupService {
  readonly root: string
  readonly name: string
  private readonly around: BackupSurroundings
  /** For requests that last as long as a table takes to be read, or removed. */
  private readonly patient: Client
  private readonly operations: Operations
  private readonly closing = new AbortController()
  private readonly busy = new Set<Promise<unknown>>()
  private creating = false

  constructor(around: BackupSurroundings) {
    const { section, disk, client, place } = around
    this.around = around
    this.root = `/${place.prefix}`
    this.name = `disk "${disk}" of ClickHouse`
    this.patient = new Client({ ...section, write_timeout_secs: DAY_MS / 1000, max_connections: 2 })
    this.operations = new Operations(client, place, section.write_timeout_secs * 1000, this.closing.signal)
  }

  /** @throws CONFLICT where the disk has something of that name: ClickHouse replaces no backup. */
  async create(directory: string): Promise<BackupManifest> {
    const what = `make backup "${directory}"`
    if (this.creating) throw new SvcError('CONFLICT', `cannot ${what}: another backup is being made; retry when it has ended`)
    this.creating = true
    try {
      return await this.run(what, true, () => this.make(this.nameOf(directory, what)))
    } finally {
      this.creating = false
    }
  }

  /** Restores the backup beside the data, reads all of it and removes it again. */
  async verify(directory: string): Promise<BackupManifest> {
    const what = `verify backup "${directory}"`
    return this.run(what, false, async () => {
      const name = this.nameOf(directory, what)
      await this.removeLeft()
      // No prefix of a node has capitals, so nobody's data can be called that.
      const prefix = `${this.scratch}${this.around.now()}_${randomUUID().slice(0, 8)}`
      const copy = this.copyOf(prefix, name)
      try {
        return manifestOf(await copy.make())
      } finally {
        await this.removed(copy)
      }
    })
  }

  /** @param target its last part is the prefix of the databases to make. */
  async restore(directory: string, target: string): Promise<BackupManifest> {
    const what = `restore backup "${directory}" to "${target}"`
    return this.run(what, false, async () => {
      const name = this.nameOf(directory, what)
      const prefix = resolve(target).split('/').at(-1) ?? ''
      await this.requireFree(prefix, what)
      const copy = this.copyOf(prefix, name)
      try {
        const copied = await copy.make()
        await copy.removeHalves()
        return manifestOf(copied)
      } catch (error) {
        await this.removed(copy)
        throw error
      }
    })
  }

  /** Ends all waiting; what ClickHouse has begun it goes on with. */
  async close(): Promise<void> {
    this.closing.abort(new SvcError('DATABASE_CLOSED', 'cannot use the database: it is closed'))
    const closed = this.patient.close()
    await Promise.allSettled([...this.busy, closed])
  }

  private async make(name: string): Promise<BackupManifest> {
    const { client, place, log, tables, disk, now } = this.around
    const { prefix } = place
    const made = now()
    await define(client, place, 'the list of what a backup has', createRecords(place), () => hasTables(client, prefix, ['backups']))
    await log.refresh()
    const namespaces = [...log.catalog.namespaces].sort()
    for (const namespace of namespaces) await tables.ensureNamespace(namespace)
    const part = (part: Part['part']): Part => ({ disk, name, part })
    const databases = namespaces.map(namespacePart)
    const before = await this.tablesIn(databases)
    const points = databases.length === 0 ? NOTHING : await this.operations.run((id) => backupPoints(place, part('points'), id, databases))
    // Those that are there before and after, for no name is taken twice, are in it.
    const after = new Set((await this.tablesIn(databases)).map(String))
    const backup = randomUUID()
    await this.record(backup, made, [['catalog', 'catalog'], ...before.filter((table) => after.has(String(table)))])
    try {
      const catalog = await this.operations.run((id) => backupCatalog(place, part('catalog'), id, backup))
      return manifestOf({ madeAt: made, files: points.files + catalog.files, bytes: points.bytes + catalog.bytes })
    } finally {
      // Some rows that stay are nobody's.
      await client.command(dropRecord(place, backup)).catch(() => {})
    }
  }

  /** Tables of namespaces, as a node calls them. @param databases what their names have behind the prefix. */
  private async tablesIn(databases: readonly string[]): Promise<[database: string, table: string][]> {
    const { client, place } = this.around
    const known = new Set(databases)
    const start = `${place.prefix}_`
    const rows = await texts(client, `SELECT database, name FROM system.tables WHERE startsWith(database, '${start}') ORDER BY database, name`)
    return rows.flatMap(([database, name]): [string, string][] => {
      const own = database.slice(start.length)
      const table = name.replace(/_local$/, '')
      return known.has(own) && isTable(table) && tablesOf(place, table)[0] === name ? [[own, table]] : []
    })
  }

  private async record(backup: string, made: number, tables: readonly (readonly [database: string, table: string])[]): Promise<void> {
    const data: Record<(typeof RECORD_COLUMNS)[number][0], Uint8Array> = {
      backup: strings(tables.map(() => backup)),
      made: int64s(tables.map(() => made)),
      database: strings(tables.map(([database]) => database)),
      table: strings(tables.map(([, table]) => table)),
    }
    const columns = RECORD_COLUMNS.map(([name, type]) => ({ name, type, data: data[name] }))
    const { client, place } = this.around
    await client.insert(`${place.prefix}.backups`, columns, tables.length, backup, { sequential: true })
  }

  private async requireFree(prefix: string, what: string): Promise<void> {
    const refuse = (why: string): SvcError => new SvcError('INVALID_REQUEST', `cannot ${what}: ${why}`)
    const own = this.around.place.prefix
    if (!isPrefix(prefix)) throw refuse(`"${prefix}" is no clickhouse.prefix; end it in one: lower case letters, digits and "_", at most 32, a letter first`)
    if (new RegExp(`^${own}_[nx]_`).test(prefix)) throw refuse(`databases of prefix "${own}" are called so; choose another`)
    const [found] = await this.databases(`name = '${prefix}' OR startsWith(name, '${prefix}_n_') OR startsWith(name, '${prefix}_x_')`)
    if (found !== undefined) throw refuse(`it exists: there is a database "${found}"; choose a prefix that has none`)
  }

  /** What verifications have left whose node died; one under way on another node is not as old. */
  private async removeLeft(): Promise<void> {
    const { place, now } = this.around
    const known = new RegExp(`^${this.scratch}(\\d+)_[0-9a-f]{8}(_[nx]_[a-z0-9]+)?$`)
    for (const name of await this.databases(`startsWith(name, '${this.scratch}')`)) {
      const begun = Number(known.exec(name)?.[1] ?? Number.NaN)
      if (now() - begun > DAY_MS) await this.patient.command(dropDatabase(place, name), undefined, OF_ANY_SIZE)
    }
  }

  private async databases(condition: string): Promise<string[]> {
    return (await texts(this.around.client, `SELECT name FROM system.databases WHERE ${condition} ORDER BY name`)).flat()
  }

  private get scratch(): string {
    return `${this.around.place.prefix}_Verify_`
  }

  private copyOf(prefix: string, name: string): Copy {
    const { place, disk, now } = this.around
    return new Copy({ operations: this.operations, client: this.patient, now }, { ...place, prefix }, disk, name)
  }

  /** After the close ClickHouse may still be at it, and nobody waits. */
  private async removed(copy: Copy): Promise<void> {
    if (this.closing.signal.aborted) return
    await copy.remove().catch((err) => this.around.left({ databases: copy.databases, err }))
  }

  /** The path in the disk. */
  private nameOf(directory: string, what: string): string {
    const name = resolve(directory).slice(1)
    if (name === '') throw new SvcError('INVALID_REQUEST', `cannot ${what}: it names no place on the ${this.name}; name one below "${this.root}"`)
    return name
  }

  private async run(what: string, made: boolean, work: () => Promise<BackupManifest>): Promise<BackupManifest> {
    if (this.closing.signal.aborted) throw this.closing.signal.reason
    const running = work()
    this.busy.add(running)
    try {
      return await running
    } catch (error) {
      throw error instanceof OperationFault ? backupFault(what, error, made) : error
    } finally {
      this.busy.delete(running)
    }
  }
}

function manifestOf({ madeAt, files, bytes }: Copied): BackupManifest {
  return { version: VERSION, createdAt: madeAt, files, bytes, statistics: {} }
}
