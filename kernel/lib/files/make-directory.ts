/**
 * Directories with those above them. Node's recursive mkdir never ends, and holds its thread, where the system answers ENOENT for a name in a directory
 * that is there, as below /proc: so the first that is missing is made by itself, and what the system says of it is the answer.
 */
import { existsSync, mkdirSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

/** The topmost directory that is missing; undefined when all are there. */
function firstMissing(path: string): string | undefined {
  let missing: string | undefined
  // A root may be missing, too: a drive of Windows.
  for (let at = resolve(path); !existsSync(at) && at !== missing; at = dirname(at)) missing = at
  return missing
}

/** Whether an error may be another's doing, who made the same directory meanwhile: making the rest tells. */
const isThere = (error: unknown) => (error as NodeJS.ErrnoException).code === 'EEXIST'

/**
 * Makes a directory and those above it; nothing when they are there.
 * @param options.mode of what is made.
 * @returns the first that was made; undefined when all were there.
 * @throws NodeJS.ErrnoException
 */
export async function makeDirectory(path: string, options: { mode?: number } = {}): Promise<string | undefined> {
  const { mode } = options
  const first = firstMissing(path)
  if (first === undefined) return await mkdir(path, { recursive: true, mode })
  await mkdir(first, { mode }).catch((error) => {
    if (!isThere(error)) throw error
  })
  await mkdir(path, { recursive: true, mode })
  return first
}

/** `makeDirectory` for those who cannot wait. @throws NodeJS.ErrnoException */
export function makeDirectorySync(path: string, options: { mode?: number } = {}): void {
  const { mode } = options
  const first = firstMissing(path)
  try {
    if (first !== undefined) mkdirSync(first, { mode })
  } catch (error) {
    if (!isThere(error)) throw error
  }
  mkdirSync(path, { recursive: true, mode })
}
