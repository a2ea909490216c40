/** Keys that name files and folders: what the config file says is relative to it, what a flag or a variable says to the current folder. */
import type { Schema } from './section.ts'

/** For the schema of a key that is a path; a URL, and the empty string, stay as they are. The plugin is given an absolute path. */
export const FILE_PATH = { filePath: true } as const

const URL_LIKE = /^[A-Za-z][\w+.-]*:\/\//

/** @param absolute makes a key's path an absolute one. */
export function withPaths(schema: Schema, value: unknown, key: string, absolute: (path: string, key: string) => string): unknown {
  if (typeof value === 'string') return schema.filePath && value !== '' && !URL_LIKE.test(value) ? absolute(value, key) : value
  if (Array.isArray(value)) return schema.items === undefined ? value : value.map((item) => withPaths(schema.items as Schema, item, key, absolute))
  if (schema.properties === undefined || typeof value !== 'object' || value === null) return value
  const whole: Record<string, unknown> = { ...value }
  for (const [name, member] of Object.entries(schema.properties))
    if (Object.hasOwn(whole, name)) whole[name] = withPaths(member, whole[name], `${key}.${name}`, absolute)
  return whole
}
