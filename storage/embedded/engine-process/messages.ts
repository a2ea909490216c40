/** What an engine thread and its engine processes say to each other, in order, over the process' channel. */
import type { SqlChunk, SqlColumn } from 'svcdb'
import type { NativeSpec } from '../threads/function-spec.ts'

/** Handed over on the command line. */
export interface ProcessSettings {
  /** The only directory whose files the process can read or write. */
  scratch: string
  threads: number
  /** What DuckDB counts of its buffers. */
  bufferBytes: number
  /** Resident memory beyond what the process has when it is ready: it ends itself above. */
  growthBytes: number
  /** Of spilled data. */
  scratchBytes: number
  /** Nothing may be spilled. */
  noSpill: boolean
  /** Of plugins, those that a module computes. */
  functions: readonly NativeSpec[]
}

/** Rows of a measurement as the statement names them. */
export interface View {
  name: string
  columns: { name: string; type: string }[]
}

export type ToProcess =
  /** The views have no rows yet. */
  | { kind: 'open'; id: number; sql: string; textBytes: boolean; unites: boolean; limit: number | undefined; histograms: boolean; views: View[] }
  /** A view's rows lie in a Parquet file. */
  | { kind: 'file'; view: string; path: string }
  /** Some more rows of a view, which must not be written to a file. None: that were all. */
  | { kind: 'rows'; view: View; chunk: SqlChunk | undefined }
  | { kind: 'run' }
  | { kind: 'plans'; sql: string; analyze: boolean }
  | { kind: 'taken'; bytes: number }
  | { kind: 'close' }

/** `id` is that of the statement. */
export type FromProcess =
  | { kind: 'ready' }
  | { kind: 'opened'; id: number; columns: SqlColumn[]; columnsKnown: boolean; parameterTypes: readonly string[] }
  /** `dictionaries` come with the first chunk alone. */
  | { kind: 'chunk'; id: number; chunk: SqlChunk; bytes: number; dictionaries?: (readonly string[] | undefined)[] }
  | { kind: 'end'; id: number }
  | { kind: 'plans'; id: number; plans: [string, string][] }
  /** The statement's plan would have read what was not handed over; it fails as well. */
  | { kind: 'refused-plan'; id: number; reason: string }
  /** Without a code: as DuckDB said it. */
  | { kind: 'failed'; id: number; message: string; code?: string }

export const WINDOW_BYTES = 4 << 20
