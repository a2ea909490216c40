/**
 * Where Node.js keeps compiled code from one start to the next, which halves the time that a start takes. By default it is a folder in the temporary directory,
 * where another user may have been first; code that is taken from there runs with our rights. So it is kept in a folder that belongs to the user.
 *
 * It runs before the cache is there, so it is JavaScript, and compile-cache.ts a link to it (docs/decisions/050-a-start-loads-what-it-runs.md).
 */
import { lstatSync, mkdirSync } from 'node:fs'
import { enableCompileCache, getCompileCacheDir } from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'

/**
 * NODE_COMPILE_CACHE names another folder, and NODE_DISABLE_COMPILE_CACHE=1 turns it off. Where nothing can be written it does nothing. Threads and processes that are
 * started later follow the variable, which is set here.
 */
export function keepCompiledCode(env = process.env) {
  const folder = env.NODE_COMPILE_CACHE ?? ownFolder(env)
  if (folder === undefined) return
  enableCompileCache(folder)
  const used = getCompileCacheDir()
  if (used !== undefined) env.NODE_COMPILE_CACHE ??= folder
}

/** $CACHE_DIRECTORY is what systemd gives a service. @returns undefined unless nobody else can write there. */
export function ownFolder(env = process.env) {
  try {
    const folder = join(env.CACHE_DIRECTORY || env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'svcdb')
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const { uid, mode } = lstatSync(folder)
    return process.getuid === undefined || (uid === process.getuid() && (mode & 0o022) === 0) ? folder : undefined
  } catch {
    return undefined
  }
}
