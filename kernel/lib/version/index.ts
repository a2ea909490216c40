/** The versions that the server tells others. */
export { INFLUX_VERSION, VERSION } from './version.ts'
