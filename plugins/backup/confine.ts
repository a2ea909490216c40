/** Paths from requests, kept inside the backup root whatever they say and whatever links lie there. */
import { relative, resolve } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'

/**
 * @param member of the body, for messages. @param real gives a path without links, where paths are of a file system. @returns the absolute path.
 * @throws INVALID_REQUEST when it leads outside.
 */
export async function confine(root: string, given: string, member: string, real = async (path: string) => path): Promise<string> {
  const refused = (why: string) => new SvcError('INVALID_REQUEST', `cannot use ${member} "${given}": ${why}`)
  if (given.includes('\0')) throw refused('it holds a zero byte; name a directory below server.backup_root')
  if (given.split(/[/\\]/).includes('..')) throw refused('".." is not allowed in it; name a directory below server.backup_root')
  const inside = async (path: string): Promise<string> => {
    try {
      return await real(path)
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
