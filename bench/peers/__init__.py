"""The others, each doing the same work: call a URL when it is due, by its own best means.

Each module is run as a script. `plant COUNT DUE STEP URL` hands over jobs that call URL<due>/<n>:
the first is due at DUE (microseconds since 1970), each further one STEP later. `worker` works until
it is told to stop; `every COUNT URL` calls that many URLs each second instead. The database and
Redis are told by PG_URL and REDIS_URL.
"""
