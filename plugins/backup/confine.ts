/** Paths from requests, kept inside the backup root whatever they say and whatever links lie there. */
import { lstat, realpath } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'

/** @param member of the body, for messages. @returns the absolute path without links. @throws INVALID_REQUEST when it leads outside. */
export async function confine(root: string, given: string, member: string): Promise<string> {
  const refused = (why: string) => new SvcError('INVALID_REQUEST', `cannot use ${member} "${given}": ${why}`)
  if (given.includes('\0')) throw refused('it holds a zero byte; name a directory below server.backup_root')
  if (given.split(/[/\\]/).includes('..')) throw refused('".." is not allowed in it; name a directory below server.backup_root')
  const inside = async (path: string): Promise<string> => {
    try {
      return await resolved(path)
    } catch (error) {
      throw refused(`${(error as Error).message}; name a directory below server.backup_root`)
    }
  }
  const base = await inside(resolve(root))
  const path = await inside(resolve(root, given))
  const way = relative(base, path)
  if (way === '' || way === '..' || way.startsWith('../')) throw refused('it is not inside server.backup_root; name a directory below it')
  return path
}

/** The path with all links in its existing part resolved. @throws Error for a link to nothing: it could come to lead anywhere. */
async function resolved(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(path) === path) throw error
    const there = await lstat(path).catch(() => undefined)
    if (there?.isSymbolicLink() === true) throw error
    return join(await resolved(dirname(path)), basename(path))
  }
}
