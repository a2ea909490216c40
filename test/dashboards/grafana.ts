/** What Grafana does to a dashboard before it asks a data source: variables, macros, times. */
import { boundsOf, type TimeRange } from './ask.ts'

export interface Target {
  refId: string
  expr?: string
  instant?: boolean
  queryText?: string
  format?: string
  datasource?: { type: string; uid: string }
}

export interface Panel {
  id: number
  type: string
  title: string
  gridPos: { x: number; y: number; w: number; h: number }
  datasource?: { type: string; uid: string }
  targets?: Target[]
  panels?: Panel[]
}

export interface Variable {
  name: string
  type: string
  query?: string | { query: string }
  regex?: string
  allValue?: string
  current?: { value: string | string[] }
}

export interface Dashboard {
  uid: string
  title: string
  templating: { list: Variable[] }
  panels: Panel[]
}

/** Those with queries, out of collapsed rows too. */
export function panelsOf(dashboard: Dashboard): Panel[] {
  return dashboard.panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]).filter(({ type }) => type !== 'row')
}

/** `$name`, `${name}`, `${name:format}`, `[[name]]`. */
const VARIABLE = /\$(\w+)|\$\{(\w+)(?::\w+)?\}|\[\[(\w+)\]\]/g

export function variablesIn(text: string): string[] {
  return [...text.matchAll(VARIABLE)].map(([, a, b, c]) => a ?? b ?? c)
}

/** @throws Error for a variable that has no value. */
export function interpolate(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(VARIABLE, (_, a, b, c) => {
    const name = a ?? b ?? c
    if (values[name] === undefined) throw new Error(`the variable ${name} of ${JSON.stringify(text)} has no value`)
    return values[name]
  })
}

/** The macros that the dashboards use of the data source FlightSQL, as its back end writes them. */
export function sqlMacros(text: string, range: TimeRange, intervalSecs: number): string {
  const { from, to } = boundsOf(range)
  return text
    .replace(/\$__timeRange\((\w+)\)/g, (_, column) => `${column} >= '${from}' AND ${column} <= '${to}'`)
    .replace(/\$__dateBin\((\w+)\)/g, (_, column) => `date_bin(interval '${intervalSecs} second', ${column}, timestamp '1970-01-01T00:00:00Z')`)
}
