# The quick check of the service's first document, its commands as written there.
# What a test puts in: the key, and who answers in place of the two hosts.
curl() {
    local words=("${@//http:\/\/localhost:8080/$SERVER}")
    command curl -sS -H "Authorization: Bearer $KEY" -w '\n%{http_code}\n' "${words[@]//https:\/\/httpbin.org\/get/$TARGET}"
}

curl -X POST http://localhost:8080/api/v1/tasks -H 'Content-Type: application/json' -d '{"name":"t1","description":"d","cron_expr":"*/20 * * * * *","exec_type":"SYNC","http_method":"GET","target_url":"https://httpbin.org/get","timeout_seconds":5}'

curl http://localhost:8080/api/v1/tasks

curl -X POST http://localhost:8080/api/v1/tasks/1/trigger

curl http://localhost:8080/api/v1/tasks/1/runs

curl http://localhost:8080/api/v1/runs/1

curl -X POST http://localhost:8080/api/v1/runs/1/cancel

curl -X PATCH http://localhost:8080/api/v1/tasks/1/disable

curl -X PATCH http://localhost:8080/api/v1/tasks/1/enable

curl -X PATCH http://localhost:8080/api/v1/tasks/1 -H 'Content-Type: application/json' -d '{"cron_expr":"*/10 * * * * *"}'

curl -X DELETE http://localhost:8080/api/v1/tasks/1
