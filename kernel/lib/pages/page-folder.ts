/**
 * A folder of static pages. Invariants: a file is read only when its real path lies below the folder's real path and no name of either is hidden; what is
 * refused and what is missing answer alike, so that nobody learns what else the folder has.
 */
import { hash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open, realpath, stat } from 'node:fs/promises'
import { isAbsolute, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SvcError } from '../errors/index.ts'
import { contentTypeOf } from './content-types.ts'
import { isServed, type PagePath, pagePath } from './page-names.ts'

/** How the files of a folder are served. */
export interface PageOptions {
  /** Cache-Control; a function is given the file's path below the folder, with "/". Default `no-cache`: kept, and asked for again by its ETag. */
  cacheControl?: string | ((file: string) => string)
  /** File that answers paths of no file, below the folder, for applications that read the path themselves. Names with a "." stay 404. */
  fallback?: string
  /** Headers of every page, lower case, over the defaults; the empty string leaves one out. */
  headers?: Readonly<Record<string, string>>
  /** Bytes of one file, which is read whole; what is longer is not served. Default 8 MiB. */
  maxFileBytes?: number
}

/** An answer without a server: 200 with its body, 304 without, 308 to the path of a folder. */
export interface PageAnswer {
  status: 200 | 304 | 308
  headers: Record<string, string>
  body?: Buffer
}

const INDEX = 'index.html'
const MAX_FILE_BYTES = 8 << 20
const HEADERS = {
  'content-security-policy': "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
}
/** No file is there, or none that a path could mean: by the system's own codes. */
const MISSING = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'EINVAL'])
/** What is found is a real path: the last name of it is no link, and no FIFO may hold the open. Windows has neither flag. */
const FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)

/** The files of one folder, as answers. */
export class PageFolder {
  private readonly directory: string
  private readonly headers: Record<string, string>
  private readonly cacheControl: (file: string) => string
  private readonly fallback: readonly string[] | undefined
  private readonly maxFileBytes: number
  private root: string | undefined

  /** Does no I/O. @param directory absolute, or a file: URL. @throws Error for one that is neither, and for a bad option. */
  constructor(directory: string | URL, options: PageOptions = {}) {
    this.directory = directory instanceof URL ? fileURLToPath(directory) : directory
    if (!isAbsolute(this.directory))
      throw new Error(`cannot serve pages from "${this.directory}": the path is relative; give new URL("./pages/", import.meta.url)`)
    const { cacheControl = 'no-cache', fallback, maxFileBytes = MAX_FILE_BYTES } = options
    if (!Number.isSafeInteger(maxFileBytes) || maxFileBytes < 1) throw new Error(`cannot serve pages: maxFileBytes ${maxFileBytes} is no positive whole number`)
    this.maxFileBytes = maxFileBytes
    this.cacheControl = typeof cacheControl === 'function' ? cacheControl : () => cacheControl
    this.fallback = fallback?.split('/')
    if (this.fallback?.every(isServed) === false)
      throw new Error(`cannot serve pages with fallback "${fallback}": it is no path of a page, such as "index.html"`)
    this.headers = Object.fromEntries(Object.entries({ ...HEADERS, ...options.headers }).filter(([, value]) => value !== ''))
  }

  /** Before the first answer. @throws SvcError CONFIG_ERROR when there is no such folder, or not the fallback. */
  async open(): Promise<void> {
    const refused = (cause: string, error?: unknown) =>
      new SvcError('CONFIG_ERROR', `cannot serve pages from "${this.directory}": ${cause}`, error === undefined ? {} : { cause: error })
    const root = await realpath(this.directory).catch((error: Error) => {
      throw refused(error.message, error)
    })
    if (!(await stat(root)).isDirectory()) throw refused('it is no folder')
    this.root = root
    if (this.fallback !== undefined && (await this.find(this.fallback))?.kind !== 'file') throw refused(`it has no file "${this.fallback.join('/')}"`)
  }

  /**
   * Of GET; that of HEAD is the same without its body.
   * @param target of the request, as it was sent. @param depth as of `pagePath`: 2 where the folder is "/console".
   * @throws SvcError NOT_FOUND for all that is not served.
   */
  async answer(target: string, depth: number, ifNoneMatch?: string): Promise<PageAnswer> {
    const path = pagePath(target, depth)
    const answer = path === undefined ? undefined : await this.at(path, ifNoneMatch)
    if (answer === undefined) throw new SvcError('NOT_FOUND', `cannot find "${target.split('?', 1)[0].slice(0, 256)}": there is no such page`)
    return answer
  }

  private async at({ names, slash, last, query }: PagePath, ifNoneMatch: string | undefined): Promise<PageAnswer | undefined> {
    let found = await this.find(names)
    if (found?.kind === 'folder') {
      const index = await this.find([...names, INDEX])
      // Relative, so that it holds behind a proxy that takes a prefix off. Without the slash, links of the page would lead beside the folder.
      if (index?.kind === 'file' && !slash) return { status: 308, headers: { ...this.headers, 'cache-control': 'no-cache', location: `./${last}/${query}` } }
      found = index
    } else if (slash) found = undefined
    if (found?.kind !== 'file') found = this.fallback !== undefined && !names.at(-1)?.includes('.') ? await this.find(this.fallback) : undefined
    return found?.kind === 'file' ? this.read(found.path, ifNoneMatch) : undefined
  }

  private async find(names: readonly string[]): Promise<{ kind: 'file' | 'folder'; path: string } | undefined> {
    const { root } = this
    if (root === undefined) throw new SvcError('INTERNAL_ERROR', `cannot serve pages from "${this.directory}": it is not open`)
    try {
      const path = await realpath(join(root, ...names))
      // Links are followed as long as where they lead could have been asked for.
      if (path !== root && !relative(root, path).split(sep).every(isServed)) return undefined
      const stats = await stat(path)
      return stats.isFile() ? { kind: 'file', path } : stats.isDirectory() ? { kind: 'folder', path } : undefined
    } catch (error) {
      if (isMissing(error)) return undefined
      throw error
    }
  }

  private async read(path: string, ifNoneMatch: string | undefined): Promise<PageAnswer | undefined> {
    let file: FileHandle | undefined
    try {
      file = await open(path, FLAGS)
      const stats = await file.stat()
      if (!stats.isFile() || stats.size > this.maxFileBytes) return undefined
      const body = await readAll(file, stats.size)
      // Of the contents, for packages are unpacked with the same time for all files; weak, for the listener may compress what is sent.
      const etag = `W/"${hash('sha256', body, 'base64url')}"`
      const name = relative(this.root as string, path)
        .split(sep)
        .join('/')
      const headers: Record<string, string> = { ...this.headers, 'cache-control': this.cacheControl(name), etag }
      if (matches(ifNoneMatch, etag)) return { status: 304, headers }
      return { status: 200, headers: { 'content-type': contentTypeOf(path), ...headers }, body }
    } catch (error) {
      if (isMissing(error)) return undefined
      throw error
    } finally {
      await file?.close()
    }
  }
}

/** At most `size` bytes, however the file grows meanwhile. */
async function readAll(file: FileHandle, size: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(size)
  let length = 0
  while (length < size) {
    const { bytesRead } = await file.read(buffer, length, size - length, length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  return buffer.subarray(0, length)
}

/** RFC 9110, section 13.1.2, by weak comparison. The tags made here have no commas. */
function matches(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  const plain = (tag: string): string => tag.trim().replace(/^W\//, '')
  return header.split(',').some((tag) => tag.trim() === '*' || plain(tag) === plain(etag))
}

function isMissing(error: unknown): boolean {
  return MISSING.has((error as NodeJS.ErrnoException).code ?? '')
}
