import { readFileSync } from 'node:fs'

/** Of the package, as its package.json has it. */
export const VERSION: string = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')).version

/** The InfluxDB whose write API is spoken: clients choose their dialect by it. */
export const INFLUX_VERSION = '1.8.10-svc'
