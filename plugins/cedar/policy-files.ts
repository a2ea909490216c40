/** Reads the files of policies so that no half-written set is taken for a whole one. */
import { createHash } from 'node:crypto'
import { constants, open, readdir } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'

export interface PolicyFile {
  /** Without its folder. */
  name: string
  text: string
}

export interface PolicySource {
  /** As configured. */
  path: string
  kind: 'folder' | 'file'
  maxBytes: number
}

export interface PolicyFiles {
  files: PolicyFile[]
  /** SHA-256 over names and contents. */
  digest: string
}

const MAX_FILES = 1000
const READS = 10
const BETWEEN_READS_MS = 50

/** Reads until two reads in a row agree. @throws Error when that does not happen, or saying which file cannot be read. */
export async function readPolicies(source: PolicySource): Promise<PolicyFiles> {
  let last: { read?: PolicyFiles; error?: Error } = {}
  for (let reads = 0; reads < READS; reads++) {
    if (reads > 1) await setTimeout(BETWEEN_READS_MS)
    const before = last
    try {
      last = { read: await readOnce(source) }
    } catch (error) {
      last = { error: error as Error }
    }
    if (last.read !== undefined && last.read.digest === before.read?.digest) return last.read
    // A file that went away between listing and reading is no failure until it stays so.
    if (last.error !== undefined && last.error.message === before.error?.message) throw last.error
  }
  throw new Error(`cannot read the policies of "${source.path}": the files keep changing; put them there in one go, such as by renaming`)
}

async function readOnce({ path, kind, maxBytes }: PolicySource): Promise<PolicyFiles> {
  const folder = kind === 'folder' ? resolve(path) : resolve(path, '..')
  const names = kind === 'file' ? [basename(path)] : await namesIn(path, folder)
  if (names.length > MAX_FILES) throw new Error(`cannot read the policies of "${path}": there are more than ${MAX_FILES} files; put policies together`)
  const files: PolicyFile[] = []
  const hash = createHash('sha256')
  let left = maxBytes
  for (const name of names) {
    const bytes = await readFile(join(folder, name), left, maxBytes)
    left -= bytes.length
    hash.update(`${Buffer.byteLength(name)} ${bytes.length} ${name}`).update(bytes)
    files.push({ name, text: textOf(bytes, join(folder, name)) })
  }
  return { files, digest: hash.digest('hex') }
}

async function namesIn(path: string, folder: string): Promise<string[]> {
  try {
    const names = await readdir(folder)
    return names.filter((name) => name.endsWith('.cedar') && !name.startsWith('.')).sort()
  } catch (error) {
    throw new Error(`cannot read the policies of "${path}": ${(error as Error).message}; make the folder, or name another one`)
  }
}

async function readFile(path: string, left: number, maxBytes: number): Promise<Buffer> {
  const refuse = (cause: string, hint: string) => new Error(`cannot read policies "${path}": ${cause}; ${hint}`)
  // Without waiting for the other end of a pipe.
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: Error) => {
    throw refuse(error.message, 'let the server read it')
  })
  try {
    const stat = await handle.stat()
    if (!stat.isFile()) throw refuse('it is not a file', 'remove it')
    const buffer = Buffer.allocUnsafe(Math.min(left, stat.size) + 1)
    let length = 0
    while (length < buffer.length) {
      const { bytesRead } = await handle.read(buffer, length, buffer.length - length)
      if (bytesRead === 0) break
      length += bytesRead
    }
    if (length > left) throw refuse(`the policies are larger than ${maxBytes} bytes`, 'remove some, or raise authorization.max_policy_bytes')
    return buffer.subarray(0, length)
  } finally {
    await handle.close()
  }
}

function textOf(bytes: Buffer, path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new Error(`cannot read policies "${path}": it is not UTF-8; save it as such`)
  }
}
