/** The password in the URL, where clients of InfluxDB 1 send it: `u` and `p`, of which the name is not looked at. */
import { authorizationFromQuery, type Source } from 'svcdb'

/** Counts as `Authorization: Bearer` where that header is absent. @param paths those that the parameters count for. */
export function passwordSource(paths: ReadonlySet<string>): Source {
  return (given) => {
    if (given.protocol !== 'http' || !paths.has(given.path)) return given
    const authorization = authorizationFromQuery(given, 'p')
    return authorization === undefined ? given : { ...given, header: (name) => (name === 'authorization' ? authorization : given.header(name)) }
  }
}
