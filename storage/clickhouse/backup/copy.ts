/**
 * Copies a backup into databases of a prefix that has none: the catalog first, then the tables that it names, made as a node would make them, then their rows.
 * What is copied is read again and compared with its checksums. A copy that fails is removed by `remove`.
 */
import { type Life, ownFields } from '../catalog.ts'
import { CatalogLog } from '../catalog-log.ts'
import type { Client } from '../client.ts'
import { idAt, inGroups } from '../series-store.ts'
import { createCatalog, createNamespace, createOwn, databaseOf, deleteRows, namespacePart, type Place, tablesOf } from '../statements.ts'
import { texts } from '../topology.ts'
import { OperationFault } from './faults.ts'
import type { Figures, Operations } from './operations.ts'
import { awaitReplicas, catalogTables, claimDatabase, createRecords, dropDatabase, type Part, type Restored, restoreTables } from './statements.ts'

/** Dropping must not stop at `max_table_size_to_drop`: what is dropped is a copy. */
export const OF_ANY_SIZE = { max_table_size_to_drop: '0', max_partition_size_to_drop: '0' }
/** How long replicas may take to fetch what one has restored. */
const REPLICAS_SECS = 3600

interface CopySurroundings {
  operations: Operations
  /** Its requests may take as long as a table takes to be read. */
  client: Client
  now(): number
}

export interface Copied extends Figures {
  /** Milliseconds since the Unix epoch. */
  madeAt: number
}

/** A table of points, or the series of a namespace. */
interface Table {
  namespace: string
  /** As the node calls it. */
  name: string
}

export class Copy {
  private readonly around: CopySurroundings
  private readonly place: Place
  private readonly disk: string
  private readonly name: string
  /** That it has made, or was about to make. */
  readonly databases: string[] = []
  private tables: Table[] = []

  /** @param place whose prefix no database has. @param name of the backup in the disk. */
  constructor(around: CopySurroundings, place: Place, disk: string, name: string) {
    this.around = around
    this.place = place
    this.disk = disk
    this.name = name
  }

  /** @throws OperationFault for a backup that is not whole, CONFLICT where the prefix has been taken meanwhile. */
  async make(): Promise<Copied> {
    const { client, now } = this.around
    const { place } = this
    await client.command(claimDatabase(place))
    this.databases.push(place.prefix)
    for (const statement of [...createCatalog(place), ...createRecords(place)]) await client.command(statement)
    const catalog = await this.restore('catalog', catalogTables(place))
    const log = new CatalogLog(client, place, now, () => {})
    await log.refresh()
    const { namespaces, lives } = log.catalog
    const { madeAt, recorded } = await this.record(namespaces)
    for (const namespace of new Set(recorded.map((table) => table.namespace))) await this.define(createNamespace(place, namespace), namespace)
    // Of lives that had ended by then, and were on their way out, nothing is needed.
    this.tables = recorded.filter((table) => isShared(table.name) || lives.has(lifeOf(table.name)))
    for (const table of this.tables) if (!isShared(table.name)) await this.defineOwn(lives.get(lifeOf(table.name)) as Life)
    const moved = this.tables.map(({ namespace, name }): Restored => {
      const [local] = tablesOf(place, name)
      return [`${namespacePart(namespace)}.${local}`, `${databaseOf(place, namespace)}.${local}`]
    })
    const points = moved.length === 0 ? { files: 0, bytes: 0 } : await this.restore('points', moved)
    return { madeAt, files: catalog.files + points.files, bytes: catalog.bytes + points.bytes }
  }

  /** Takes rows away whose series are not there: tables are copied one after the other, and the series may have come, or gone, between two. */
  async removeHalves(): Promise<void> {
    const { client } = this.around
    const { place } = this
    for (const { namespace, name } of this.tables.filter((table) => table.name !== 'series')) {
      const database = databaseOf(place, namespace)
      const select = `SELECT DISTINCT series FROM ${database}.${name} WHERE series GLOBAL NOT IN (SELECT series FROM ${database}.series)`
      const keys: string[] = []
      for await (const { rows, columns } of client.blocks(select)) for (let row = 0; row < rows; row++) keys.push(idAt(columns[0].bytes, row))
      for (const ids of inGroups(keys)) await client.delete(deleteRows(place, namespace, name, `series IN (${ids})`))
    }
  }

  async remove(): Promise<void> {
    for (const database of this.databases) await this.around.client.command(dropDatabase(this.place, database), undefined, OF_ANY_SIZE)
  }

  /** What the backup says of itself. @param namespaces of its catalog: nothing else is taken. */
  private async record(namespaces: ReadonlySet<string>): Promise<{ madeAt: number; recorded: Table[] }> {
    const { client } = this.around
    const { prefix } = this.place
    const byPart = new Map([...namespaces].map((namespace) => [namespacePart(namespace), namespace]))
    const rows = await texts(client, `SELECT toString(made), database, table FROM ${prefix}.backups`)
    if (rows.length === 0) throw new OperationFault('it does not say what it has')
    const recorded: Table[] = []
    for (const [, database, table] of rows) {
      const namespace = byPart.get(database)
      if (namespace !== undefined && isTable(table)) recorded.push({ namespace, name: table })
    }
    return { madeAt: Number(rows[0][0]), recorded }
  }

  private async restore(part: Part['part'], tables: readonly Restored[]): Promise<Figures> {
    const { operations, client } = this.around
    const from = { disk: this.disk, name: this.name, part }
    const figures = await operations.run((id) => restoreTables(this.place, from, id, tables))
    const made = tables.map(([, to]) => to)
    for (const statement of awaitReplicas(this.place, made)) await client.command(statement, REPLICAS_SECS)
    for (const table of made) await this.check(table)
    return figures
  }

  /** Reads all of a table: RESTORE looks at names and sizes. With a cluster, of the server that is asked. */
  private async check(table: string): Promise<void> {
    const parts = this.around.client.blocks(`CHECK TABLE ${table}`, { settings: ['check_query_single_value_result = 0'] })
    for await (const { rows, columns } of parts)
      for (let row = 0; row < rows; row++)
        if (columns[1].bytes[row] === 0) throw new OperationFault(`${table}: ${Buffer.from(columns[2].texts?.[row] ?? []).toString()}`)
  }

  private async define(statements: readonly string[], namespace: string): Promise<void> {
    this.databases.push(databaseOf(this.place, namespace))
    for (const statement of statements) await this.around.client.command(statement)
  }

  private async defineOwn(life: Life): Promise<void> {
    for (const statement of createOwn(this.place, life.namespace, life.number, ownFields(life))) await this.around.client.command(statement)
  }
}

const isShared = (table: string): boolean => table === 'series' || table === 'narrow'
export const isTable = (table: string): boolean => isShared(table) || lifeOf(table) > 0
const lifeOf = (table: string): number => Number(/^m_(\d{1,15})$/.exec(table)?.[1] ?? 0)
