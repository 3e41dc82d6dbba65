// Where a request of the fleet's REST interface goes.

import { IQuery, IReference } from './requests';

/** The address of a path below the interface; *baseUrl* is the Jupyter server's. */
export function addressOf(
  baseUrl: string,
  path: (string | IReference)[],
  query: IQuery = {}
): string {
  const parts = path.map(part =>
    typeof part === 'string' ? part : `${part.zone}~${part.name}`
  );
  const url = [
    baseUrl.replace(/\/+$/, ''),
    'jupyter-tpu/v1',
    ...parts.map(encodeURIComponent)
  ].join('/');
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]]
  );
  const text = new URLSearchParams(given).toString();
  return text ? `${url}?${text}` : url;
}
