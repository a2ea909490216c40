/** The password in the URL, where clients of InfluxDB 1 send it: `u` and `p`, of which the name is not looked at. */
import type { Credentials, Source } from 'svcdb'

/** Counts as `Authorization: Bearer` where that header is absent. @param paths those that the parameters count for. */
export function passwordSource(paths: ReadonlySet<string>): Source {
  return (given: Credentials): Credentials => {
    if (given.protocol !== 'http' || !paths.has(given.path) || given.header('authorization') !== undefined) return given
    const password = given.query('p')
    if (!password) return given
    return { ...given, header: (name) => (name === 'authorization' ? `Bearer ${password}` : given.header(name)) }
  }
}
