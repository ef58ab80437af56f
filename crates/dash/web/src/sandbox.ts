// What a run's `env.json` says of its code environment. Nothing of its form is taken for granted: a copied run
// holds what somebody wrote there.

export interface Isolation {
  layers: { layer: string; holds: boolean }[] | null;
  degraded: boolean;
  python: string | null;
  python_version: string | null;
  packages: string[];
  /** What has another form than is known. */
  notices: string[];
}

export function isolation(sandbox: unknown): Isolation {
  const notices: string[] = [];
  const parts = isObject(sandbox) ? sandbox : {};
  const part = <T>(name: string, is: (value: unknown) => value is T): T | null => {
    const value = parts[name];
    if (value === undefined || value === null) return null;
    if (is(value)) return value;
    notices.push(`env.json: sandbox.${name} has a form that is not known here`);
    return null;
  };
  if (sandbox !== null && sandbox !== undefined && !isObject(sandbox)) notices.push('env.json: sandbox has a form that is not known here');
  return {
    layers: part('layers', isListOf(isLayer)),
    degraded: part('degraded', isBoolean) ?? false,
    python: part('python', isText),
    python_version: part('python_version', isText),
    packages: part('packages', isListOf(isText)) ?? [],
    notices,
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean';
}

function isLayer(value: unknown): value is { layer: string; holds: boolean } {
  return isObject(value) && isText(value['layer']) && isBoolean(value['holds']);
}

function isListOf<T>(is: (value: unknown) => value is T): (value: unknown) => value is T[] {
  return (value): value is T[] => Array.isArray(value) && value.every(is);
}
