/**
 * Files that exports write: where one goes, that no two write the same one, and that nothing of an export that a crash interrupted stays for good. What a file
 * is made of is the engine's.
 */
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import type { FileSystem } from '../log/file-system.ts'

/** How the name of a file that is being written ends. */
const UNFINISHED = /\.parquet\.\d+\.unfinished$/i

export interface ExportPaths {
  /** Absolute. */
  path: string
  /** The name the file has while it grows; beside `path`, and not in use. */
  unfinished: string
  /** For parts of it, likewise. */
  part: string
  /** No other export of this process has it. */
  number: number
}

export class ExportFiles {
  private readonly directory: string | undefined
  private readonly fs: Pick<FileSystem, 'existsSync' | 'readdirSync' | 'rmSync'>
  private readonly writing = new Set<string>()
  private readonly swept = new Set<string>()
  private next = 0

  /** @param directory where files go whose path is relative; undefined = such a path is refused. */
  constructor(directory: string | undefined, fs: Pick<FileSystem, 'existsSync' | 'readdirSync' | 'rmSync'>) {
    this.directory = directory
    this.fs = fs
  }

  /** @throws CONFLICT for a file that exists or is being written, INVALID_REQUEST for a relative path where there is no place for it. */
  async write<R>(given: string, body: (paths: ExportPaths) => Promise<R>): Promise<R> {
    const path = this.resolved(given)
    if (this.writing.has(path) || this.fs.existsSync(path))
      throw new SvcError('CONFLICT', `cannot export to "${basename(path)}": the file exists or is being written; choose another name or remove it`)
    this.sweep(dirname(path))
    this.writing.add(path)
    const number = this.next
    this.next += 2
    try {
      return await body({ path, unfinished: `${path}.${number}.unfinished`, part: `${path}.${number + 1}.unfinished`, number })
    } finally {
      this.writing.delete(path)
    }
  }

  private resolved(path: string): string {
    if (this.directory !== undefined) return resolve(this.directory, path)
    if (isAbsolute(path)) return resolve(path)
    throw new SvcError('INVALID_REQUEST', `cannot export to "${path}": the storage engine has no folder for exports; name one, as export.directory does`)
  }

  /** What a crash left behind, before the first export into a directory: none is being written there yet. */
  private sweep(directory: string): void {
    if (this.swept.has(directory)) return
    this.swept.add(directory)
    if (!this.fs.existsSync(directory)) return
    for (const name of this.fs.readdirSync(directory)) if (UNFINISHED.test(name)) this.fs.rmSync(join(directory, name))
  }
}
