/**
 * The dashboards of a folder that others may fill. Invariants: a file is read only when its real path lies below the folder's real path; how many files
 * are looked at, and how many bytes of them are kept, is bounded; what is bad about one file is said and costs that file only.
 */
import { constants } from 'node:fs'
import { open, opendir, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { type Model, parseModel } from './model.ts'

interface FolderLimits {
  max_files: number
  max_file_bytes: number
  max_total_bytes: number
}

interface FolderRead {
  /** In order of their names. */
  models: Model[]
  /** Whole sentences, one a file that is not served. */
  problems: string[]
}

interface Known {
  /** What the file was when it was read: another file, size or time means to read it again. */
  stamp: string
  outcome: Model | string
}

/** Names in a folder that are looked at; what comes after them in the system's own order is not. */
const MAX_NAMES = 10_000
const MAX_NAME_SHOWN = 100
/** The last name of a real path is no link; no FIFO may hold the open. Windows has neither flag. */
const FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)

export class DashboardFolder {
  private readonly path: string
  private readonly limits: FolderLimits
  private known = new Map<string, Known>()

  constructor(path: string, limits: FolderLimits) {
    this.path = path
    this.limits = limits
  }

  /** A folder that is not there has none. Files that are as they were are not read again. One call at a time. */
  async read(): Promise<FolderRead> {
    const problems: string[] = []
    const root = await this.root(problems)
    if (root === undefined) {
      this.known = new Map()
      return { models: [], problems }
    }
    const models: Model[] = []
    const known = new Map<string, Known>()
    let bytes = 0
    const names = await this.names(root, problems)
    for (const [i, name] of names.entries()) {
      let outcome: Model | string
      try {
        const file = await this.file(root, name)
        known.set(name, file)
        outcome = file.outcome
      } catch (error) {
        outcome = (error as Error).message
      }
      if (typeof outcome === 'string') problems.push(this.refused(name, outcome))
      else if ((bytes += Buffer.byteLength(outcome.text)) <= this.limits.max_total_bytes) models.push(outcome)
      else {
        known.delete(name)
        const others = i + 1 === names.length ? '' : ', and those after it are left out'
        problems.push(this.refused(name, `with it the folder has more than ${this.limits.max_total_bytes} bytes${others}; raise dashboards.max_total_bytes`))
        break
      }
    }
    this.known = known
    return { models, problems }
  }

  refused(name: string, cause: string): string {
    return `cannot serve dashboard ${JSON.stringify(join(this.path, name.slice(0, MAX_NAME_SHOWN)))}: ${cause}`
  }

  private async root(problems: string[]): Promise<string | undefined> {
    if (this.path === '' || this.limits.max_files === 0) return undefined
    try {
      return await realpath(this.path)
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      if (code !== 'ENOENT') problems.push(`cannot read the dashboards of ${JSON.stringify(this.path)}: ${message}; let the server read the folder`)
      return undefined
    }
  }

  private async names(root: string, problems: string[]): Promise<string[]> {
    const { max_files: most } = this.limits
    const names: string[] = []
    const failed = (cause: string) => problems.push(`cannot read all dashboards of ${JSON.stringify(this.path)}: ${cause}`)
    try {
      let seen = 0
      for await (const { name } of await opendir(root)) {
        if (++seen > MAX_NAMES) {
          failed(`it has more than ${MAX_NAMES} files; keep other files elsewhere`)
          break
        }
        if (name.endsWith('.json') && !name.startsWith('.')) names.push(name)
      }
    } catch (error) {
      failed(`${(error as Error).message}; make it a folder that the server may read`)
    }
    names.sort()
    if (names.length > most)
      failed(
        `it has more than ${most}, and ${JSON.stringify(names[most].slice(0, MAX_NAME_SHOWN))} and those after it are left out; raise dashboards.max_files`,
      )
    return names.slice(0, most)
  }

  /** @throws Error in a few words when it cannot be looked at. */
  private async file(root: string, name: string): Promise<Known> {
    const path = await realpath(join(root, name)).catch((error: NodeJS.ErrnoException) => {
      throw new Error(`${error.code === 'ENOENT' ? 'it leads to nothing' : error.message}; remove it`)
    })
    if (!path.startsWith(root.endsWith(sep) ? root : root + sep)) throw new Error('it is a link that leads out of the folder; copy the file there')
    const file = await open(path, FLAGS).catch((error: Error) => {
      throw new Error(`${error.message}; let the server read it`)
    })
    try {
      const status = await file.stat({ bigint: true })
      if (!status.isFile()) throw new Error('it is not a file; remove it')
      const stamp = [path, status.dev, status.ino, status.size, status.mtimeNs, status.ctimeNs].join(' ')
      const before = this.known.get(name)
      if (before?.stamp === stamp) return before
      const most = this.limits.max_file_bytes
      const buffer = Buffer.allocUnsafe(Math.min(most, Number(status.size)) + 1)
      let length = 0
      while (length < buffer.length) {
        const { bytesRead } = await file.read(buffer, length, buffer.length - length)
        if (bytesRead === 0) return { stamp, outcome: outcomeOf(name, buffer.subarray(0, length)) }
        length += bytesRead
      }
      if (length > most) return { stamp, outcome: `it has more than ${most} bytes; raise dashboards.max_file_bytes` }
      throw new Error('it grew while it was read; put it there in one go, such as by renaming')
    } finally {
      await file.close()
    }
  }
}

function outcomeOf(name: string, bytes: Buffer): Model | string {
  try {
    return parseModel(name, bytes)
  } catch (error) {
    return (error as Error).message
  }
}
