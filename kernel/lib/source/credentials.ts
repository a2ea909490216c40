/** As whom a broker is spoken to, out of a file of its own. */
import { readBounded } from '../files/index.ts'

const MAX_BYTES = 65_536

/** Username and password in a file of JSON. @throws Error that shows nothing of what is in the file: it is logged, and every reader sees it. */
export async function credentialsIn(file: string): Promise<{ username: string; password: string | undefined }> {
  const { username, password } = (parsed((await readBounded(file, MAX_BYTES)).toString()) ?? {}) as { username?: unknown; password?: unknown }
  if (typeof username !== 'string' || (password !== undefined && typeof password !== 'string'))
    throw new Error(`cannot use ${file}: it is to be JSON with username and password, which are texts`)
  return { username, password }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // the parser's own text would show a part of it
  }
}
