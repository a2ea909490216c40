/** The DuckDB of an engine process: views of the rows handed over, and one statement over them. */
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import type { SqlChunk } from 'svcdb'
import { type RowSource, registerSources, SOURCE_FUNCTION } from '../duckdb/duckdb.ts'
import { ident, literal } from '../sql/ast.ts'
import { guardPlan, type PlanBounds } from '../sql/plan-guard.ts'
import { registration } from '../sql/setup.ts'
import { runnerOn, type Statement } from '../sql/statement.ts'
import { type FromProcess, type ProcessSettings, type ToProcess, type View, WINDOW_BYTES } from './messages.ts'
import { chunkSource } from './row-source.ts'
import { slicesOf } from './slices.ts'

type Open = Extract<ToProcess, { kind: 'open' }>

/** Before rows are handed over the views read nothing, and the statement must not either. */
const NOTHING: Omit<PlanBounds, 'refused'> = { source: SOURCE_FUNCTION, isFile: () => false, isSource: () => false }

/** What DuckDB is told once it runs; the last closes it to all that statements could say. */
const sessionSettings = (scratch: string): string[] => [
  `SET TimeZone = 'UTC'`,
  `SET preserve_insertion_order = true`,
  `SET streaming_buffer_size = '128KB'`,
  `SET explain_output = 'all'`,
  `SET allowed_directories = [${literal(scratch)}]`,
  `SET enable_external_access = false`,
  `SET lock_configuration = true`,
]

const megabytes = (bytes: number): string => `${Math.max(1, Math.floor(bytes / 1e6))}MB`

async function connect({ scratch, threads, bufferBytes, scratchBytes, noSpill }: ProcessSettings): Promise<DuckDBConnection> {
  const instance = await DuckDBInstance.create(':memory:', {
    threads: String(threads),
    memory_limit: megabytes(bufferBytes),
    temp_directory: noSpill ? '' : join(scratch, 'spill'),
    max_temp_directory_size: megabytes(scratchBytes),
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
    allow_community_extensions: 'false',
    allow_unsigned_extensions: 'false',
  })
  return instance.connect()
}

export class ProcessDatabase {
  private readonly connection: DuckDBConnection
  private readonly sources: Map<string, RowSource>
  private readonly send: (message: FromProcess) => void
  private request: Open | undefined
  private statement: Statement | undefined
  /** Bytes of rows that were sent and not taken. */
  private inFlight = 0
  private wake: (() => void) | undefined
  /** Rows that were handed over, by their view. */
  private readonly chunks = new Map<string, SqlChunk[]>()

  private constructor(connection: DuckDBConnection, sources: Map<string, RowSource>, send: (message: FromProcess) => void) {
    this.connection = connection
    this.sources = sources
    this.send = send
  }

  static async create(settings: ProcessSettings, send: (message: FromProcess) => void): Promise<ProcessDatabase> {
    const connection = await connect(settings)
    ;(await registration(settings.functions))(connection)
    const sources = new Map<string, RowSource>()
    registerSources(connection, sources)
    for (const statement of sessionSettings(settings.scratch)) await connection.run(statement)
    return new ProcessDatabase(connection, sources, send)
  }

  /** Takes a statement, over views that have no rows yet. */
  async open(request: Open): Promise<void> {
    const { id, sql, views } = request
    this.request = request
    for (const { name, columns } of views)
      await this.view(name, `SELECT ${columns.map((column) => `NULL::${column.type} AS ${ident(column.name)}`).join(', ')} WHERE false`)
    this.statement = await this.prepare(request)
    await guardPlan(sql, { ...NOTHING, refused: (reason) => this.send({ kind: 'refused-plan', id, reason }) }, this.connection)
    const { columns, columnsKnown, parameterTypes } = this.statement
    this.send({ kind: 'opened', id, columns, columnsKnown, parameterTypes })
  }

  /** All rows of a view are in a file. */
  async file(name: string, path: string): Promise<void> {
    await this.view(name, `SELECT * FROM read_parquet([${literal(path)}])`)
  }

  /** @param chunk undefined = there are no more. */
  async rows(into: View, chunk: SqlChunk | undefined): Promise<void> {
    const known = this.chunks.get(into.name) ?? []
    this.chunks.set(into.name, known)
    if (chunk !== undefined) return void known.push(chunk)
    this.sources.set(into.name, chunkSource(into, known))
    await this.view(into.name, `SELECT * FROM ${SOURCE_FUNCTION}(${literal(into.name)})`)
  }

  async run(): Promise<void> {
    const { id, views } = this.request as Open
    // It was prepared when its views had no rows.
    if (views.length > 0) {
      this.statement?.destroy()
      this.statement = await this.prepare(this.request as Open)
    }
    await this.sendRows(id, this.statement as Statement)
    this.statement = undefined
    this.send({ kind: 'end', id })
  }

  async plans(sql: string, analyze: boolean): Promise<void> {
    this.send({ kind: 'plans', id: (this.request as Open).id, plans: await runnerOn(this.connection).plans(sql, analyze) })
  }

  taken(bytes: number): void {
    this.inFlight -= bytes
    this.wake?.()
  }

  async close(): Promise<void> {
    this.statement?.destroy()
    this.statement = undefined
    this.chunks.clear()
    this.sources.clear()
    this.inFlight = 0
    for (const { name } of this.request?.views ?? []) await this.connection.run(`DROP VIEW IF EXISTS ${ident(name)}`)
    this.request = undefined
  }

  private async view(name: string, select: string): Promise<void> {
    await this.connection.run(`CREATE OR REPLACE TEMP VIEW ${ident(name)} AS ${select}`)
  }

  private prepare({ sql, textBytes, unites, limit, histograms }: Open): Promise<Statement> {
    return runnerOn(this.connection).open(sql, { textBytes, unites, limit, histograms: () => histograms })
  }

  /** In slices, as fast as they are taken; dictionaries come with the first. */
  private async sendRows(id: number, statement: Statement): Promise<void> {
    let first = true
    for await (const chunk of statement.rows()) {
      const dictionaries = first ? chunk.columns.map(({ dictionary }) => dictionary) : undefined
      for (const { chunk: slice, bytes } of slicesOf(chunk)) {
        await this.room()
        this.inFlight += bytes
        const columns = slice.columns.map(({ dictionary: _, ...vector }) => vector)
        this.send({ kind: 'chunk', id, chunk: { rows: slice.rows, columns }, bytes, ...(first ? { dictionaries } : {}) })
        first = false
      }
    }
  }

  /** Resolves when more rows may be sent. */
  private async room(): Promise<void> {
    while (this.inFlight >= WINDOW_BYTES)
      await new Promise<void>((resolve) => {
        this.wake = resolve
      })
  }
}
